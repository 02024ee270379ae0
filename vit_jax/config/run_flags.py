"""Flags of the commands that are given a run: where its data lie."""

import argparse
from collections.abc import Sequence

from vit_jax.config.settings import FIELDS
from vit_jax.errors import UserError, did_you_mean

# Settings of a run that may differ when it is scored: where its data lie, and how they
# are read.
MOVABLE = (
    "data.source",
    "data.dir",
    "data.archive",
    "data.download",
    "eval_batch_size",
)


def add_data_flags(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for each of `MOVABLE`, such as --data_dir."""
    group = parser.add_argument_group(
        "the run's data", "Without these flags the data are read as in training."
    )
    for key in MOVABLE:
        meaning = FIELDS[key].meaning.replace("%", "%%")
        group.add_argument(f"--{_flag(key)}", metavar="VALUE", help=meaning)


def moved_settings(
    options: argparse.Namespace, unknown: Sequence[str]
) -> dict[str, str]:
    """Setting -> value of the flags of `add_data_flags` that were given.

    Args:
      options: the parsed command line.
      unknown: the arguments that the parser does not know.

    Raises:
      UserError: there are unknown arguments.
    """
    if unknown:
        name = unknown[0].partition("=")[0].replace("--config.", "--")
        flags = [f"--{flag}" for flag in vars(options)]
        raise UserError(
            f"Unknown argument {unknown[0]}{did_you_mean(name, flags)}; of a trained "
            f"run's settings only {', '.join(f'--{_flag(key)}' for key in MOVABLE)} "
            "can be changed."
        )
    given = {key: getattr(options, _flag(key)) for key in MOVABLE}
    return {key: value for key, value in given.items() if value is not None}


def _flag(key: str) -> str:
    return key.replace(".", "_")
