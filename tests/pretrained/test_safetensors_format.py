"""Safetensors as we and as the library write them."""

import json
import struct

import ml_dtypes
import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from tests.pretrained.damaged_files import TENSORS, entry
from vit_jax.pretrained import read_weights
from vit_jax.pretrained.safetensors_format import write_safetensors


def test_safetensors_are_read_bfloat16_too(tmp_path):
    numbers = np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3)
    text = json.dumps({"a": entry("BF16", offsets=(0, 12))}).encode()
    content = struct.pack("<Q", len(text)) + text + numbers.tobytes()
    (tmp_path / "file").write_bytes(content)
    weights = read_weights(tmp_path / "file")
    assert weights.format == "safetensors" and len(weights.sha256) == 64
    np.testing.assert_array_equal(weights.tensors["a"], numbers)


def test_the_library_writes_what_we_read(tmp_path):
    save_file(TENSORS, tmp_path / "file")
    for name, array in read_weights(tmp_path / "file").tensors.items():
        np.testing.assert_array_equal(array, TENSORS[name])


def test_the_library_reads_what_we_write_and_two_files_are_equal(tmp_path):
    metadata = {"format": "pt", "vit_jax": "{}", "more": "text"}
    for name in ("one", "two"):
        write_safetensors(tmp_path / name, TENSORS, metadata)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with safe_open(tmp_path / "one", framework="numpy") as file:
        assert file.metadata() == metadata and set(file.keys()) == set(TENSORS)
        for name, array in TENSORS.items():
            np.testing.assert_array_equal(file.get_tensor(name), array)
