"""Reads NumPy's .npz without NumPy's pickles."""

import math
import pathlib

import ml_dtypes
import numpy as np

from vit_jax.errors import UserError
from vit_jax.pretrained.zip_file import open_zip

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npz(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays by name; two bytes without a type, as JAX saves it, are bfloat16.

    Raises:
      UserError: an array is of Python objects or of text, or its declared shape does
        not fit its size in the file.
    """
    tensors = {}
    # Trained weights hardly shrink; fresh ones may be zero in parts.
    with open_zip(path, largest_ratio=20) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            with archive.open(info) as member:
                version = np.lib.format.read_magic(member)
                shape, is_fortran, dtype = _HEADERS[version](member)
                if dtype.kind not in "fiub" and dtype != np.dtype("V2"):
                    raise UserError(
                        f"The weights file {path} stores {name} as {dtype}, expected "
                        "numbers; objects are not read because they could run code: "
                        "save the parameters alone."
                    )
                num_bytes = math.prod(shape) * dtype.itemsize
                if num_bytes != info.file_size - member.tell():
                    raise UserError(
                        f"The weights file {path} declares {name} with shape {shape}, "
                        "which does not fit its size: it is damaged; fetch it again."
                    )
                if dtype == np.dtype("V2"):
                    dtype = np.dtype(ml_dtypes.bfloat16)
                flat = np.frombuffer(member.read(), dtype)
            tensors[name] = flat.reshape(shape, order="F" if is_fortran else "C")
    return tensors
