"""Files are written whole or not at all, and never through a link."""

import os

import pytest

from vit_jax.errors import UserError
from vit_jax.files import open_to_append, refuse_links, write_file


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
