"""Reads what `torch.save` has written since PyTorch 1.6, without PyTorch.

The file is a zip of a pickle and of each storage's bytes. A pickle is a program that
may name any importable function and call it. Here the names that a state dict needs
give harmless functions of this module, and any other name, and any opcode that
`torch.save` does not write, is refused.
"""

import collections
import io
import math
import pathlib
import pickle
import pickletools
import zipfile
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from vit_jax.errors import UserError

_STORAGES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}
_OPCODES = """
PROTO GLOBAL BINPUT LONG_BINPUT BINGET LONG_BINGET MARK TUPLE TUPLE1 TUPLE2 TUPLE3
EMPTY_TUPLE EMPTY_DICT EMPTY_LIST BINUNICODE BININT BININT1 BININT2 LONG1 BINFLOAT
NEWTRUE NEWFALSE NONE BINPERSID REDUCE NEWOBJ BUILD SETITEM SETITEMS APPEND APPENDS STOP
""".split()  # noqa: SIM905
# Where training scripts put the weights, the averaged ones first.
_STATE_DICTS = (
    "teacher", "model_ema", "state_dict_ema", "model", "state_dict", "model_state_dict",
    "net",
)  # fmt: skip


class _Storage(NamedTuple):
    key: str
    kind: str
    length: int


class _Tensor(NamedTuple):
    """Where a tensor lies: it is read only once it is known to be wanted."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_pth(path: pathlib.Path, archive: zipfile.ZipFile) -> dict[str, np.ndarray]:
    """The tensors of the state dict by name.

    Of several state dicts the averaged one is taken, in the order of `_STATE_DICTS`.
    `archive` is the file at `path`, opened; its members are not compressed.

    Raises:
      UserError: the pickle asks for more than tensors need, a tensor lies outside its
        storage, or there is no state dict.
    """
    (pickled,) = (n for n in archive.namelist() if n.split("/")[-1] == "data.pkl")
    folder = pickled.removesuffix("data.pkl")
    if f"{folder}byteorder" in archive.namelist():
        order = archive.read(f"{folder}byteorder")
        if order != b"little":
            raise UserError(
                f"The weights file {path} has the byte order {order!r}, expected "
                "little; save it on another machine."
            )
    state_dict = _find_state_dict(path, _load(path, archive.read(pickled)))
    # Views of one storage would each be copied later.
    declared = sum(math.prod(tensor.shape) for tensor in state_dict.values())
    if declared > path.stat().st_size:
        raise UserError(
            f"The weights file {path} declares tensors of {declared:,} numbers, which "
            "is more than it holds; it is damaged or malicious: fetch it again."
        )
    return _read_tensors(path, archive, f"{folder}data/", state_dict)


def _load(path: pathlib.Path, content: bytes) -> Any:
    """The object in the pickle, its tensors as `_Tensor`."""
    for count, (opcode, argument, _) in enumerate(pickletools.genops(content)):
        # A large index into the memo makes Python allocate all places before it.
        is_memo = opcode.name in ("BINPUT", "LONG_BINPUT")
        if opcode.name not in _OPCODES or (is_memo and argument > count):
            raise UserError(
                f"The pickle in the weights file {path} has the opcode {opcode.name} "
                f"({argument}), which torch.save does not write, and was not run; save "
                "the state dict again with torch.save(model.state_dict(), path)."
            )
    unpickler = _Unpickler(io.BytesIO(content))
    unpickler.path = path
    return unpickler.load()


class _Unpickler(pickle.Unpickler):
    path: pathlib.Path

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        # A pickle can set attributes of the functions and classes that it gets: these
        # are made for it, and what they return cannot be changed.
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_: _Tensor(
                storage, offset, tuple(shape), tuple(strides)
            )
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if module == "torch" and name in _STORAGES:
            return name
        if (module, name) == ("argparse", "Namespace"):
            # The arguments that training scripts save beside the weights.
            return type("Namespace", (), {})
        raise UserError(
            f'The pickle in the weights file {self.path} asks for "{module}.{name}", '
            "which tensors do not need, and was not run; it may be malicious: save the "
            "weights alone, with torch.save(model.state_dict(), path) or as "
            "safetensors."
        )

    def persistent_load(self, pid: Any) -> _Storage:
        _, kind, key, _, length = pid
        return _Storage(key, kind, length)


def _find_state_dict(path: pathlib.Path, content: Any) -> dict[str, _Tensor]:
    if isinstance(content, dict):
        for inner in _STATE_DICTS:
            # Beside the weights a script may save a name, or a tensor of its own.
            if isinstance(content.get(inner), dict):
                return _find_state_dict(path, content[inner])
        tensors = {str(k): v for k, v in content.items() if isinstance(v, _Tensor)}
        if tensors:
            return tensors
    keys = list(content) if isinstance(content, dict) else type(content).__name__
    raise UserError(
        f"The weights file {path} holds {keys}, expected tensors by name or one of "
        f"{', '.join(_STATE_DICTS)}; save the state dict alone."
    )


def _read_tensors(
    path: pathlib.Path,
    archive: zipfile.ZipFile,
    folder: str,
    tensors: dict[str, _Tensor],
) -> dict[str, np.ndarray]:
    storages, arrays = {}, {}
    for name, (storage, offset, shape, strides) in tensors.items():
        dtype = np.dtype(_STORAGES[storage.kind])
        member = archive.getinfo(folder + storage.key)
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        if (
            member.file_size != storage.length * dtype.itemsize
            or min(0, offset, *shape, *strides) < 0
            or (math.prod(shape) and last >= storage.length)
        ):
            raise UserError(
                f"The weights file {path} declares {name} with shape {shape}, which "
                f"does not fit the {member.file_size:,} bytes of its storage: it is "
                "damaged; fetch it again."
            )
        if storage.key not in storages:
            storages[storage.key] = archive.read(member)
        arrays[name] = np.lib.stride_tricks.as_strided(
            np.frombuffer(storages[storage.key], dtype)[offset:],
            shape,
            [stride * dtype.itemsize for stride in strides],
            writeable=False,
        )
    return arrays
