"""Reads and writes safetensors: a JSON header, then the tensors' bytes.

The library `safetensors` is not used: its NumPy interface cannot read bfloat16 and
writes arrays that are not contiguous wrongly.
"""

import json
import math
import os
import pathlib
import struct
from collections.abc import Mapping

import ml_dtypes
import numpy as np

from vit_jax.errors import UserError
from vit_jax.files import write_file

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

    The tensors must lie side by side and fill the file, as the format demands; this is
    checked before any of them is read.

    Raises:
      UserError: the header does not fit the file, or it names an unknown dtype.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        (header_size,) = struct.unpack("<Q", file.read(8))
        if header_size > size - 8:
            raise _damaged(
                path, f"declares a header of {header_size:,} bytes, which it lacks"
            )
        header = json.loads(file.read(header_size))
        metadata = header.pop("__metadata__", {})
        entries = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
        end = 0
        for name, entry in entries:
            end = _checked_end(path, name, entry, start=end)
        if end != size - 8 - header_size:
            raise _damaged(
                path,
                f"declares {end:,} bytes of tensors but holds "
                f"{size - 8 - header_size:,}",
            )
        tensors = {}
        for name, entry in entries:
            begin, end = entry["data_offsets"]
            flat = np.frombuffer(file.read(end - begin), _DTYPES[entry["dtype"]])
            tensors[name] = flat.reshape(entry["shape"])
    return tensors, metadata


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
    write_file(pathlib.Path(path), start, *(array.data for array in arrays.values()))


def _checked_end(path: pathlib.Path, name: str, entry: dict, *, start: int) -> int:
    """The offset behind a tensor that must begin at `start`."""
    if entry["dtype"] not in _DTYPES:
        raise UserError(
            f"The weights file {path} stores {name} as {entry['dtype']}, which is not "
            f"one of {', '.join(_DTYPES)}; convert it to F32."
        )
    shape = entry["shape"]
    begin, end = entry["data_offsets"]
    num_bytes = math.prod(shape) * np.dtype(_DTYPES[entry["dtype"]]).itemsize
    if any(n < 0 for n in shape) or begin != start or end - begin != num_bytes:
        raise _damaged(
            path, f"declares {name} with shape {shape} at bytes {begin} to {end}"
        )
    return end


def _damaged(path: pathlib.Path, how: str) -> UserError:
    return UserError(
        f"The weights file {path} {how}: it is truncated or damaged; fetch it again."
    )
