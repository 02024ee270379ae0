"""Reads NumPy's .npz without NumPy's pickles."""

import pathlib

import ml_dtypes
import numpy as np

from vit_jax.errors import UserError
from vit_jax.pretrained.zip_file import open_zip


def read_npz(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays by name; two bytes without a type, as JAX saves it, are bfloat16.

    Raises:
      UserError: an array is of Python objects or of text, or its declared shape does
        not fit its size in the file.
    """
    tensors = {}
    # Trained weights hardly shrink; fresh ones may be zero in parts.
    with open_zip(path, largest_ratio=20), np.load(path, allow_pickle=False) as archive:
        for name in archive.files:
            try:
                array = archive[name]
                if array.dtype == np.dtype("V2"):
                    array = array.view(ml_dtypes.bfloat16)
                elif array.dtype.kind not in "fiub":
                    raise ValueError(f"it is stored as {array.dtype}")
            except ValueError as error:
                raise UserError(
                    f"The weights file {path} has {name}, which is no array of numbers "
                    f"({error}); objects are not read because they could run code: "
                    "fetch the file again, or save the parameters alone."
                ) from error
            tensors[name] = array
    return tensors
