"""Manifests of files, and differences of states."""

import os

import jax
import numpy as np
import pytest

from vit_jax.errors import UserError
from vit_jax.runs import manifest


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.bin").write_bytes(b"abc")
    (tmp_path / "deep" / "b.bin").write_bytes(b"")
    (tmp_path / "_METADATA").write_bytes(b"{}")
    manifest.write_manifest(tmp_path)
    manifest.verify(tmp_path)
    return tmp_path


def test_every_change_of_a_file_is_named(folder):
    (folder / "a.bin").write_bytes(b"abd")
    with pytest.raises(UserError, match=r"a\.bin differs from its SHA-256"):
        manifest.verify(folder)
    (folder / "a.bin").write_bytes(b"abc")
    (folder / "deep" / "b.bin").unlink()
    with pytest.raises(UserError, match=r"deep/b\.bin is missing"):
        manifest.verify(folder)


@pytest.mark.parametrize("content", [None, b"{", b"[]", b'{"sha256": 3}'])
def test_a_manifest_is_needed(folder, content):
    path = folder / "manifest.json"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(UserError, match="missing or cannot be read"):
        manifest.verify(folder)


def test_only_files_below_the_folder_are_opened(folder):
    outside = folder.parent / "outside.bin"
    outside.write_bytes(b"")
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace("deep/b.bin", "../outside.bin"))
    with pytest.raises(UserError, match=r"outside\.bin is missing"):
        manifest.verify(folder)


def test_the_metadata_must_be_listed(folder):
    (folder / "manifest.json").write_text('{"sha256": {}}')
    with pytest.raises(UserError, match="does not list _METADATA"):
        manifest.verify(folder)


def test_pipes_and_links_to_folders_are_refused_and_other_files_are_not(folder):
    (folder / "deep" / "commit_success.txt").write_bytes(b"")
    manifest.verify(folder)
    (folder / "link").symlink_to("deep")
    with pytest.raises(UserError, match="link is neither a folder nor a file"):
        manifest.verify(folder)
    (folder / "link").unlink()
    os.mkfifo(folder / "deep" / "pipe")
    with pytest.raises(UserError, match="pipe is neither a folder nor a file"):
        manifest.verify(folder)


def test_leaves_have_the_names_of_their_places():
    tree = {"params": {"head": [1, None, 2]}, "none": {}}
    assert manifest.named_leaves(tree) == {"params/head/0": 1, "params/head/2": 2}
    with pytest.raises(ValueError, match="same name"):
        manifest.named_leaves({"a/b": 1, "a": {"b": 2}})


def test_differences_are_listed_by_kind():
    def arrays(**shapes):
        return {k: jax.ShapeDtypeStruct(v, np.float32) for k, v in shapes.items()}

    assert manifest.differences(arrays(a=(1,)), arrays(a=(1,))) == ""
    found = manifest.differences(arrays(a=(1,), b=(2,)), arrays(a=(3,), c=()))
    assert found == (
        "missing: c; not expected: b; different: a is float32[1] instead of float32[3]"
    )
    many = manifest.differences({}, arrays(**{f"x{i}": () for i in range(7)}))
    assert many == "missing: x0, x1, x2, x3, x4 and 2 more"
