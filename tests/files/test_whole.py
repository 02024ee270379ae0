"""Files are written whole or not at all, and never through a link."""

import errno
import os

import pytest

from vit_jax.errors import UserError
from vit_jax.files import (
    is_full,
    make_folder,
    open_to_append,
    refuse_links,
    write_file,
)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_what_a_link_leads_to_stays_as_it_is(link, tmp_path):
    victim, file = tmp_path / "victim", tmp_path / "file"
    victim.write_text("mine")
    link(victim, file)
    with pytest.raises(OSError, match=r"link|symbolic"):
        open_to_append(file)
    write_file(file, "new")
    assert (victim.read_text(), file.read_text()) == ("mine", "new")
    assert not file.is_symlink()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_pipe_in_the_place_of_a_file_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "file")
    with pytest.raises(OSError, match="no file of its own"):
        open_to_append(tmp_path / "file")


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(UserError, match=r"file cannot be written .* bytes are free"):
        write_file(tmp_path / "file", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_only_links_that_lead_out_are_refused(tmp_path):
    outside, run = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    (run / "figures").mkdir(parents=True)
    (run / "figures" / "inside.png").symlink_to(run / "report.html")
    (run / "data").symlink_to(outside)  # nothing is written there
    refuse_links(run, ["figures", "missing"])
    (run / "figures" / "deep").symlink_to(outside)
    with pytest.raises(
        UserError, match=r"figures/deep is a symbolic link to .*outside"
    ):
        refuse_links(run, ["figures"])


def test_a_folder_is_made_with_its_parents_and_left_empty(tmp_path):
    folder = tmp_path / "a" / "b"
    for _ in range(2):
        make_folder(folder, "--out")
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_names_its_option(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        UserError, match=r"cannot be written to \(.*\); give another --o"
    ):
        make_folder(tmp_path / "file" / "b", "--out")


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
    assert is_full(error) == is_full(chained(error)) == full
    assert not is_full(None)
