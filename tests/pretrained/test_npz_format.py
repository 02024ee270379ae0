""".npz without pickles of NumPy."""

import io
import zipfile

import ml_dtypes
import numpy as np

from tests.pretrained.damaged_files import npz, refusal
from vit_jax.pretrained import read_weights


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def test_npz_is_read_bfloat16_and_columns_first_too(tmp_path):
    arrays = {
        "plain": np.arange(6.0).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "half": np.arange(3, dtype=ml_dtypes.bfloat16),
        "scalar": np.float32(2),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "file.npz", **arrays)
        weights = read_weights(tmp_path / "file.npz")
        assert weights.format == "npz"
        for name, array in arrays.items():
            np.testing.assert_array_equal(weights.tensors[name], array)


def test_bad_npz_is_refused(tmp_path):
    good = npy(np.arange(6.0))
    lying = good.replace(b"'shape': (6,), ", b"'shape': (9**9,),", 1)
    larger = good.replace(b"(6,), }        ", b"(600000000,), }", 1)
    objects = npy(np.array([print], dtype=object), allow_pickle=True)
    bomb = npy(np.zeros(10**6))
    for member, words in (
        (objects, "has x, which is no array of numbers (Object arrays"),
        (npy(np.array(["text"])), "it is stored as <U4"),
        (lying, "no array of numbers (malformed"),
        (larger, "no array of numbers (EOF"),
        (good[:-8], "no array of numbers (EOF"),
        (b"no array", "damaged"),
    ):
        path = npz(tmp_path / "x.npz", {"x.npy": member})
        assert words in refusal(path)
    path = npz(tmp_path / "x.npz", {"x.npy": bomb}, zipfile.ZIP_DEFLATED)
    assert "declares 8,000,128 bytes of content" in refusal(path)
    path = npz(tmp_path / "x.npz", {"x.npy": good})
    path.write_bytes(path.read_bytes()[:-30])
    assert "damaged" in refusal(path)
    content = bytearray(npz(path, {"x.npy": good}).read_bytes())
    content[content.index(good) + 130] ^= 1
    path.write_bytes(content)
    assert "CRC" in refusal(path)
    other = npz(tmp_path / "other.zip", {"readme.txt": b""})
    assert "neither .safetensors nor a zip of PyTorch" in refusal(other)
