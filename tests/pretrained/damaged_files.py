"""Good and damaged files of weights, and how they are refused."""

import zipfile

import numpy as np
import pytest

from tests.pretrained.weight_files import safetensors_bytes
from vit_jax.errors import UserError
from vit_jax.pretrained import read_weights

TENSORS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(2, "f4")}
GOOD = safetensors_bytes(TENSORS)


def entry(dtype="F32", shape=(2, 3), offsets=(0, 24)):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def header(**changes):
    return safetensors_bytes(TENSORS, **changes)


def npz(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def refusal(path):
    """The one sentence with which the file is refused."""
    with pytest.raises(UserError) as caught:
        read_weights(path)
    message = str(caught.value)
    assert message.endswith(".") and ". " not in message and str(path) in message
    return message
