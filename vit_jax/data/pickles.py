"""Reads the pickles of CIFAR's python layout without running what they say.

A pickle is a program: it may name any importable function and call it. The official
files, written by Python 2, need three names of NumPy. Here those stand for three
harmless functions of our own; any other name is refused.
"""

import io
import pickle
from typing import Any

import numpy as np

from vit_jax.errors import UserError


def _empty_array(array_type: str, shape: tuple[int, ...], typecode: bytes):
    # NumPy's _reconstruct makes an empty array too; its state is set afterwards.
    return np.empty(0, np.uint8)


def _byte_dtype(name: bytes, align: int, copy: int) -> np.dtype:
    # NumPy warns about the integers that stand for booleans in these old files.
    if name != b"u1":
        raise UserError(f"The pickle holds an array of {name!r}, expected bytes (u1).")
    return np.dtype(np.uint8)


_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "dtype"): _byte_dtype,
    # Only ever handed to _reconstruct: it need not be callable.
    ("numpy", "ndarray"): "ndarray",
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str):
        if (module, name) not in _ALLOWED:
            raise UserError(
                f'The pickle asks for "{module}.{name}", which no official CIFAR file '
                "does, and was not run; it may be malicious: fetch the official file."
            )
        return _ALLOWED[module, name]


def load_pickle(content: bytes) -> Any:
    """The object in a pickle of byte strings, numbers, lists, dicts and uint8 arrays.

    Text written by Python 2 comes back as bytes.

    Raises:
      UserError: it asks for anything else, or is no whole pickle.
    """
    try:
        return _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except UserError:
        raise
    except Exception as error:
        # What damaged opcodes do to their operands can raise nearly anything, and a
        # damaged length even a MemoryError.
        raise UserError(
            f"Not a readable pickle ({type(error).__name__}: {error}); fetch the file "
            "again."
        ) from error
