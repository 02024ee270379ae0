"""JSON files that hold their own SHA-256: flipped bits, and things that are none."""

import json
import os

import pytest

from vit_jax.config import default_config, read_saved_config
from vit_jax.errors import UserError
from vit_jax.files import read_json, write_json
from vit_jax.files.hashed_json import parse

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
            content = parse(data)
        except ValueError:
            refused += 1
            continue
        try:
            assert read_saved_config(content) == config
        except UserError:
            refused += 1
    assert refused > 10_000


def test_no_flipped_bit_renames_a_class(tmp_path):
    write_json(tmp_path / "dataset.json", DATASET)
    for data in flips((tmp_path / "dataset.json").read_bytes()):
        try:
            content = parse(data)
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
