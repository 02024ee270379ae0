"""The format of a file is found, and damaged or foreign files are refused."""

import struct

import pytest

from tests.pretrained.damaged_files import GOOD, entry, header, refusal
from vit_jax.pretrained import read_weights


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
        (GOOD[:-5], "declares 32 bytes of tensors but holds 27"),
        (GOOD + b"more", "declares 32 bytes of tensors but holds 36"),
        (GOOD[:30], "declares a header of"),
        (struct.pack("<Q", 2**60) + GOOD[8:], "declares a header of"),
        (GOOD[:8] + b"{" + GOOD[8:], "damaged"),
        (header(a=entry(shape=(2, 2**40))), "declares a with shape"),
        (header(a=entry(shape=(-2, -3))), "declares a with shape"),
        (header(a=entry(offsets=(0, 2**50))), "declares a with shape"),
        (header(b=entry(shape=(2,), offsets=(16, 24))), "declares b with shape"),
        (header(a=entry(dtype="F8_E4M3")), "stores a as F8_E4M3"),
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
