"""Reads a file of pretrained weights, whatever its format."""

import dataclasses
import hashlib
import json
import os
import pathlib
import zipfile
from typing import Any

import ml_dtypes
import numpy as np

from vit_jax.errors import UserError
from vit_jax.files import user_path
from vit_jax.pretrained.pth_format import read_pth
from vit_jax.pretrained.safetensors_format import read_safetensors

# Beginnings of files that people take for weights, and what they are.
_FOREIGN = {
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9": (
        "was written by PyTorch before 1.6 and is not a zip, but a pickle that would "
        "have to be run; convert it in PyTorch by "
        "torch.save(torch.load(old, weights_only=True), new)"
    ),
    b"version https://git-lfs": (
        "is a pointer of Git LFS and not the file itself; fetch it with git lfs pull"
    ),
    b"<": "is a web page and not the file itself; fetch the file behind its link",
    b"\x89HDF": "is HDF5, as Keras writes it; take the same weights from timm",
}


@dataclasses.dataclass(frozen=True)
class Weights:
    """Pretrained tensors by the names they have in their file.

    Attributes:
      path: of the file, or of the folder of a run of this package.
      format: "safetensors", "pth", "npz", or "vit_jax" for parameters of such a run.
      sha256: of the file, in hexadecimal digits.
      tensors: by name, in the file's dtypes and orientation.
      metadata: what the file says of its model, where it does: "num_heads",
        "norm_eps", "activation", "norm_position", and the "grid" of its positions as
        (rows, columns).
    """

    path: str
    format: str
    sha256: str
    tensors: dict[str, np.ndarray]
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)


def read_weights(path: str | os.PathLike) -> Weights:
    """Reads .safetensors, .pth, .npz, or a folder that Hugging Face's ViT was saved in.

    The format is recognised from the content. No code from the file is run, and no
    PyTorch is needed. A folder has `config.json`, and `model.safetensors` or
    `pytorch_model.bin`.

    Raises:
      UserError: the file is missing, foreign, damaged or malicious.
    """
    path = user_path(path)
    try:
        if path.is_dir():
            return _read_hugging_face(path)
        return _read_file(path)
    except UserError:
        raise
    except OSError as error:
        raise UserError(
            f"The weights file {path} cannot be read ({error.strerror or error}); give "
            "the path of a .safetensors, .pth or .npz file, or of a folder saved by "
            "Hugging Face; config.pretrained.path also takes a run's folder."
        ) from error
    except Exception as error:
        # What damaged bytes do to the readers of their format can raise nearly
        # anything, and a damaged length even a MemoryError.
        raise UserError(
            f"The weights file {path} is damaged ({type(error).__name__}: {error}); "
            "fetch it again."
        ) from error


def _read_file(path: pathlib.Path) -> Weights:
    with open(path, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        start = file.read(64)
    # First, since the size of a header may begin with any bytes.
    if start[8:9] == b"{":
        tensors, metadata = read_safetensors(path)
        stated = dict(json.loads(metadata.get("vit_jax", "{}")))
        if "grid" in stated:
            rows, columns = stated["grid"]
            stated["grid"] = (int(rows), int(columns))
        return Weights(str(path), "safetensors", sha256, tensors, stated)
    for beginning, description in _FOREIGN.items():
        if start.startswith(beginning):
            raise UserError(f"The weights file {path} {description}.")
    if start.startswith(b"PK"):
        with zipfile.ZipFile(path) as archive:
            names = [name.split("/")[-1] for name in archive.namelist()]
            if names.count("data.pkl") == 1:
                check_zip(path, archive, largest_ratio=1)
                return Weights(str(path), "pth", sha256, read_pth(path, archive))
            if names and all(name.endswith(".npy") for name in names):
                # Trained weights hardly shrink; fresh ones may be zero in parts.
                check_zip(path, archive, largest_ratio=20)
                return Weights(str(path), "npz", sha256, _read_npz(path))
    raise UserError(
        f"The weights file {path} is neither .safetensors nor a zip of PyTorch (.pth) "
        f"or NumPy (.npz), but begins with {start[:8]!r}; give one of these."
    )


def check_zip(
    path: pathlib.Path, archive: zipfile.ZipFile, *, largest_ratio: int
) -> None:
    """Refuses a zip whose members could unpack to more than expected.

    Together they may have `largest_ratio` times the size of the file. With a ratio of 1
    no member may be compressed, which also excludes members that overlap; with a higher
    one they may be compressed by deflation only.

    Raises:
      UserError: says which of these the zip breaks, or that a member is encrypted or
        two have the same name.
    """
    members, size = archive.infolist(), path.stat().st_size
    allowed = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED][: 1 + (largest_ratio > 1)]
    declared = sum(member.file_size for member in members)
    if declared > largest_ratio * size:
        message = f"declares {declared:,} bytes of content in a file of {size:,} bytes"
    elif any(member.compress_type not in allowed for member in members):
        message = "holds members that are compressed, which no such file should be"
    elif any(member.flag_bits & 1 for member in members):
        message = "is encrypted"
    elif len({member.filename for member in members}) < len(members):
        message = "holds two members of the same name"
    else:
        return
    raise UserError(
        f"The weights file {path} {message}; nothing was read from it: fetch the file "
        "again from where its authors offer it."
    )


def _read_npz(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays by name. NumPy writes bfloat16 as two bytes without a type."""
    tensors = {}
    with np.load(path, allow_pickle=False) as archive:
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


def _read_hugging_face(folder: pathlib.Path) -> Weights:
    files = [folder / "model.safetensors", folder / "pytorch_model.bin"]
    found = [file for file in files if file.is_file()]
    if not found or not (folder / "config.json").is_file():
        raise UserError(
            f"The folder {folder} lacks config.json or one of model.safetensors and "
            "pytorch_model.bin, which a ViT saved by Hugging Face has; give such a "
            "folder or a weights file."
        )
    config = json.loads((folder / "config.json").read_text())
    if config.get("model_type") != "vit":
        raise UserError(
            f"The folder {folder} holds a model of type {config.get('model_type')!r}, "
            'expected "vit"; give a folder of ViTForImageClassification or ViTModel.'
        )
    weights = _read_file(found[0])
    stated = {
        "num_heads": config.get("num_attention_heads"),
        "norm_eps": config.get("layer_norm_eps"),
        "activation": config.get("hidden_act"),
    }
    image, patch = config.get("image_size"), config.get("patch_size")
    if isinstance(image, int) and isinstance(patch, int):
        stated["grid"] = (image // patch, image // patch)
    return dataclasses.replace(weights, metadata=weights.metadata | stated)
