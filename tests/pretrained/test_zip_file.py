"""Zips are opened only where what they declare is what such files hold."""

import zipfile

import pytest

from vit_jax.errors import UserError
from vit_jax.pretrained.zip_file import open_zip


def make_zip(path, *members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def test_contents_are_read(tmp_path):
    path = make_zip(tmp_path / "x", ("a", b"12"), ("b", b"345"))
    with open_zip(path, largest_ratio=1) as archive:
        assert [archive.read(name) for name in ("a", "b")] == [b"12", b"345"]
    zeros = ("zeros", bytes(5000))
    path = make_zip(tmp_path / "y", zeros, compression=zipfile.ZIP_DEFLATED)
    with open_zip(path, largest_ratio=100) as archive:
        assert archive.read("zeros") == zeros[1]


@pytest.mark.parametrize(
    "compression, ratio, words",
    [
        (zipfile.ZIP_DEFLATED, 20, "declares 5,000 bytes of content in a file of"),
        (zipfile.ZIP_DEFLATED, 1, "declares 5,000 bytes"),
        (zipfile.ZIP_BZIP2, 100, "members that are compressed"),
    ],
)
def test_what_unpacks_to_more_or_in_another_way_is_refused(
    tmp_path, compression, ratio, words
):
    path = make_zip(tmp_path / "x", ("zeros", bytes(5000)), compression=compression)
    with pytest.raises(UserError, match=f"{words}.*nothing was read"):
        open_zip(path, largest_ratio=ratio)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path):
    path = make_zip(tmp_path / "x", ("a", b"1"), ("a", b"2"))
    with pytest.raises(UserError, match="two members of the same name"):
        open_zip(path, largest_ratio=1)


def test_an_encrypted_member_is_refused(tmp_path):
    path = make_zip(tmp_path / "x", ("a", b"1"))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # the flag in the directory
    path.write_bytes(content)
    with pytest.raises(UserError, match="is encrypted"):
        open_zip(path, largest_ratio=1)
