"""Files are written whole or not at all, never through a link, and read with limits."""

import errno
import json
import math
import os
import pathlib
import secrets

import pytest

from vit_jax.config import default_config, make_config
from vit_jax.errors import UserError
from vit_jax.files import (
    cache_folder,
    is_full,
    make_cache_folder,
    make_folder,
    open_to_append,
    parse_json,
    read_json,
    refuse_links,
    user_path,
    write_file,
    write_json,
)


def test_downloads_and_programs_are_kept_in_the_users_cache(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == pathlib.Path("/somewhere/vit_jax")
    monkeypatch.delenv("XDG_CACHE_HOME")

    def no_home():
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "home", no_home)
        with pytest.raises(UserError, match=r"no home folder.*XDG_CACHE_HOME"):
            cache_folder()
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == pathlib.Path("/home/me/.cache/vit_jax")


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


def test_a_link_at_the_place_of_an_unfinished_file_is_not_followed(
    tmp_path, monkeypatch
):
    (tmp_path / "victim").write_text("mine")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "0")
    (tmp_path / ".file.0").symlink_to(tmp_path / "victim")
    with pytest.raises(UserError, match="file cannot be written"):
        write_file(tmp_path / "file", "new")
    assert (tmp_path / "victim").read_text() == "mine"


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


def test_what_a_link_leads_to_is_not_searched(tmp_path, monkeypatch):
    (tmp_path / "figures").symlink_to("/")

    def walk(top):
        yield pytest.fail(f"walked through {top}")

    monkeypatch.setattr(os, "walk", walk)
    with pytest.raises(UserError, match="figures is a symbolic link to /, so that"):
        refuse_links(tmp_path, ["figures"])


def test_the_cache_folder_is_its_users_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = os.umask(0o002)  # the default of several Linux distributions
    try:
        folder = make_cache_folder()
    finally:
        os.umask(before)
    assert folder == tmp_path / "vit_jax" and folder.stat().st_mode & 0o777 == 0o700


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


# ---- JSON with its own SHA-256

DATASET = {"class_names": ["cat", "dog"], "image_shape": [32, 32, 3]}


def flips(data):
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            yield bytes(flipped)


@pytest.mark.slow
def test_no_flipped_bit_of_a_config_becomes_another_setting(tmp_path):
    config = default_config()
    config.data.mean, config.data.std = (0.4914, 0.4822), (0.247, 0.2435)
    write_json(tmp_path / "config.json", config.to_dict())
    refused = 0
    for data in flips((tmp_path / "config.json").read_bytes()):
        try:
            content = parse_json(data)
        except ValueError:
            refused += 1
            continue
        try:
            assert make_config(content) == config
        except UserError:
            refused += 1
    assert refused > 10_000


def test_no_flipped_bit_renames_a_class(tmp_path):
    write_json(tmp_path / "dataset.json", DATASET)
    for data in flips((tmp_path / "dataset.json").read_bytes()):
        try:
            content = parse_json(data)
        except ValueError:
            continue
        assert DATASET.items() <= content.items()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "5", "null", '"text"', "{", "\xff", "[" * 100_000, '{"a":' * 400,
     '{"a":' * 40 + "1" + "}" * 40, '{"a": ' + "9" * 5000 + "}"],
)  # fmt: skip
def test_what_is_no_object_is_damaged(text, tmp_path):
    (tmp_path / "file").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match="file is damaged: "):
        read_json(tmp_path / "file")


def test_what_is_no_file_is_refused_at_once(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "endless").symlink_to("/dev/zero")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)  # a sparse file of a terabyte
    for name in ("folder", "pipe", "loop", "endless", "huge"):
        with pytest.raises(UserError, match=rf"{name} (is no ordinary|cannot be read)"):
            read_json(tmp_path / name)


def test_a_file_without_a_hash_is_taken_as_it_is(tmp_path):
    (tmp_path / "file").write_text(json.dumps(DATASET))
    assert read_json(tmp_path / "file") == DATASET


def test_json_has_no_nan(tmp_path):
    write_json(tmp_path / "file", {"loss": math.nan, "rates": (1, math.inf)})
    assert "NaN" not in (tmp_path / "file").read_text()
    assert read_json(tmp_path / "file") == {"loss": None, "rates": [1, None]}


def test_a_name_that_begins_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/of/mine")
    assert user_path("~/runs") == pathlib.Path("/home/of/mine/runs")
    assert user_path("./~nobody_here") == tmp_path / "~nobody_here"
    with pytest.raises(UserError, match=r"or \./~ for a name"):
        user_path("~nobody_here")
