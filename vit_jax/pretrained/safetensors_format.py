"""Reads and writes safetensors: a JSON header, then the tensors' bytes.

The library `safetensors` parses a file. Its NumPy interface cannot read bfloat16, so
the arrays are made here. It writes the header's metadata in a random order, so that two
files of the same model would differ; a file is therefore written here.
"""

import json
import os
import pathlib
import struct
from collections.abc import Mapping

import ml_dtypes
import numpy as np

from vit_jax.errors import UserError
from vit_jax.files import user_path, write_file

_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


def read_safetensors(
    path: pathlib.Path,
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors by name, and the file's own metadata.

    Raises:
      UserError: the header does not fit the file, or it names an unknown dtype.
    """
    import safetensors  # A training from scratch does without the library.

    content = path.read_bytes()
    try:
        entries = safetensors.deserialize(content)
    except safetensors.SafetensorError as error:
        raise UserError(
            f"The weights file {path} is truncated or damaged ({error}); fetch it "
            "again."
        ) from error
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    del content  # Each entry has a copy of its bytes.
    tensors = {}
    for name, entry in entries:
        if entry["dtype"] not in _DTYPES:
            raise UserError(
                f"The weights file {path} stores {name} as {entry['dtype']}, which is "
                f"not one of {', '.join(_DTYPES)}; convert it to F32."
            )
        flat = np.frombuffer(entry["data"], _DTYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors, header.get("__metadata__", {})


def write_safetensors(
    path: str | os.PathLike,
    tensors: Mapping[str, np.ndarray],
    metadata: Mapping[str, str],
) -> None:
    """Writes float32 tensors; a file that stands at `path` is replaced at once.

    Raises:
      UserError: the disk is full, or the folder cannot be written to.
    """
    arrays = {name: np.ascontiguousarray(x, "<f4") for name, x in tensors.items()}
    header: dict = {"__metadata__": dict(metadata)}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": "F32",
            "shape": array.shape,
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    start = struct.pack("<Q", len(text)) + text
    write_file(user_path(path), start, *(array.data for array in arrays.values()))
