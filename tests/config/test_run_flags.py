"""The flags for where the data of a run lie."""

import argparse

import pytest

from vit_jax.config import run_flags
from vit_jax.errors import UserError


def test_flags_become_settings_of_the_data():
    parser = argparse.ArgumentParser()
    run_flags.add_data_flags(parser)
    options = parser.parse_args(["--data_dir=here", "--eval_batch_size", "7"])
    moved = {"data.dir": "here", "eval_batch_size": "7"}
    assert run_flags.moved_settings(options, []) == moved
    with pytest.raises(UserError, match=r"--data_dri=x .*did you mean .--data_dir"):
        run_flags.moved_settings(options, ["--data_dri=x"])
