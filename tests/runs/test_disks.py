"""Folders that can be written to, and disks that are full."""

import errno
import os

import pytest

from vit_jax.errors import UserError
from vit_jax.runs import disks


def test_a_folder_is_made_with_its_parents_and_left_empty(tmp_path):
    folder = tmp_path / "a" / "b"
    for _ in range(2):
        disks.make_folder(folder, "--out")
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_names_its_option(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        UserError, match=r"cannot be written to \(.*\); give another --o"
    ):
        disks.make_folder(tmp_path / "file" / "b", "--out")


def chained(cause):
    try:
        try:
            raise cause
        except Exception as error:
            raise RuntimeError("in between") from error
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    "error, full",
    [
        (OSError(errno.ENOSPC, "x"), True),
        (OSError(errno.EDQUOT, "x"), True),
        (ValueError(f"TensorStore: {os.strerror(errno.ENOSPC)} [os error]"), True),
        (OSError(errno.EACCES, "x"), False),
        (ValueError("x"), False),
    ],
)
def test_a_full_disk_is_found_wherever_it_is_in_the_chain(error, full):
    assert disks.is_full(error) == disks.is_full(chained(error)) == full
    assert not disks.is_full(None)
