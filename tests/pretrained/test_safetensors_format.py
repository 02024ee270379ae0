"""Safetensors as we and as the library write them."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest

from tests.pretrained.damaged_files import TENSORS, entry
from vit_jax.pretrained import read_weights


def test_safetensors_are_read_bfloat16_too(tmp_path):
    numbers = np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3)
    text = json.dumps({"a": entry("BF16", offsets=(0, 12))}).encode()
    content = struct.pack("<Q", len(text)) + text + numbers.tobytes()
    (tmp_path / "file").write_bytes(content)
    weights = read_weights(tmp_path / "file")
    assert weights.format == "safetensors" and len(weights.sha256) == 64
    np.testing.assert_array_equal(weights.tensors["a"], numbers)


def test_the_library_writes_what_we_read(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    library.save_file(TENSORS, tmp_path / "file")
    for name, array in read_weights(tmp_path / "file").tensors.items():
        np.testing.assert_array_equal(array, TENSORS[name])
