"""Reads the pickles of CIFAR's python layout without running code of theirs.

A pickle is a program that may call any importable function. The official files, written
by Python 2, need three names of NumPy. They are replaced by harmless functions of this
module, and any other name is refused.
"""

import io
import pickle
from typing import Any

import numpy as np

from vit_jax.errors import UserError


def _empty_array(array_type: str, shape: tuple[int, ...], typecode: bytes):
    # This is what NumPy's _reconstruct does; the array's state is set afterwards.
    return np.empty(0, np.uint8)


def _byte_dtype(name: bytes, align: int, copy: int) -> np.dtype:
    # np.dtype would warn about `align` and `copy`, which are integers in these files.
    if name != b"u1":
        raise UserError(f"The pickle holds an array of {name!r}, expected bytes (u1).")
    return np.dtype(np.uint8)


_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "dtype"): _byte_dtype,
    # It is only passed to _reconstruct and need not be callable.
    ("numpy", "ndarray"): "ndarray",
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str):
        if (module, name) not in _ALLOWED:
            raise UserError(
                f'The pickle asks for "{module}.{name}", which no official CIFAR file '
                "does; it may be malicious and was not run: fetch the official file."
            )
        return _ALLOWED[module, name]


def load_pickle(content: bytes) -> Any:
    """The object in a pickle of byte strings, numbers, lists, dicts and uint8 arrays.

    Text written by Python 2 is returned as bytes.

    Raises:
      UserError: the pickle needs another type or function, or is damaged.
    """
    try:
        return _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except UserError:
        raise
    except Exception as error:
        # Damaged opcodes can raise nearly any exception, and a damaged length even a
        # MemoryError.
        raise UserError(
            f"The pickle cannot be read ({type(error).__name__}: {error}); fetch the "
            "file again."
        ) from error
