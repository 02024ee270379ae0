"""The format of a file is found, and damaged or foreign files are refused."""

import io
import struct
import zipfile

import ml_dtypes
import numpy as np
import pytest

from tests.pretrained.damaged_files import GOOD, entry, header, npz, refusal
from vit_jax.errors import UserError
from vit_jax.pretrained import read_weights
from vit_jax.pretrained.read import check_zip


def test_a_header_of_any_size_is_told_from_other_formats(tmp_path):
    """The first byte may be that of a web page or of a zip, too."""
    for byte in b"<P":
        text = GOOD[8:][: int.from_bytes(GOOD[:8], "little")]
        text += b" " * ((byte - len(text)) % 256)
        content = struct.pack("<Q", len(text)) + text + GOOD[-32:]
        (tmp_path / "file").write_bytes(content)
        assert content[0] == byte and read_weights(tmp_path / "file").tensors


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "begins with b''"),
        (b"some text", "neither .safetensors nor a zip"),
        (b"<!doctype html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "pointer of Git LFS"),
        (b"\x89HDF\r\n", "HDF5"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "before 1.6"),
        (b"PK\x03\x04 and no more", "damaged"),
        (GOOD[:-5], "truncated or damaged"),
        (GOOD + b"more", "truncated or damaged"),
        (GOOD[:30], "truncated or damaged"),
        (struct.pack("<Q", 2**60) + GOOD[8:], "truncated or damaged"),
        (GOOD[:8] + b"{" + GOOD[8:], "damaged"),
        (header(a=entry(shape=(2, 2**40))), "truncated or damaged"),
        (header(a=entry(shape=(-2, -3))), "truncated or damaged"),
        (header(a=entry(offsets=(0, 2**50))), "truncated or damaged"),
        (header(b=entry(shape=(2,), offsets=(16, 24))), "truncated or damaged"),
        (header(a=entry("F8_E4M3", shape=(24,))), "stores a as F8_E4M3"),
        (header(a=entry(shape=("x",))), "damaged"),
        (header(a=[]), "damaged"),
        (header(__metadata__={"vit_jax": '{"grid": "3 x 3"}'}), "damaged"),
    ],
)
def test_damaged_and_foreign_files_are_refused_in_a_sentence(content, words, tmp_path):
    (tmp_path / "file.bin").write_bytes(content)
    assert words in refusal(tmp_path / "file.bin")


def test_a_missing_file_and_a_foreign_folder_are_refused(tmp_path):
    assert "cannot be read" in refusal(tmp_path / "none")
    assert "lacks config.json" in refusal(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(GOOD)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert "'bert'" in refusal(tmp_path)


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


@pytest.mark.parametrize(
    "compression, ratio, words",
    [
        (zipfile.ZIP_DEFLATED, 20, "declares 5,000 bytes of content in a file of"),
        (zipfile.ZIP_DEFLATED, 1, "declares 5,000 bytes"),
        (zipfile.ZIP_BZIP2, 100, "members that are compressed"),
        (zipfile.ZIP_DEFLATED, 100, None),
    ],
)
def test_what_unpacks_to_more_or_in_another_way_is_refused(
    tmp_path, compression, ratio, words
):
    path = npz(tmp_path / "x", {"zeros": bytes(5000)}, compression)
    with zipfile.ZipFile(path) as archive:
        if words is None:
            check_zip(path, archive, largest_ratio=ratio)
            return
        with pytest.raises(UserError, match=f"{words}.*nothing was read"):
            check_zip(path, archive, largest_ratio=ratio)


def test_an_encrypted_member_is_refused(tmp_path):
    path = npz(tmp_path / "x.npz", {"x.npy": b"1"})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # the flag in the directory
    path.write_bytes(content)
    assert "is encrypted; nothing was read" in refusal(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for content in (b"1", b"2"):
            archive.writestr("x.npy", content)
    assert "two members of the same name; nothing was read" in refusal(path)
