"""Settings on the command line: overrides, the list of all, and where data lie.

Overrides look and work as those of `ml_collections.config_flags`. That library parses a
value by the type of the default, so that it refuses every setting whose default is
None, "=None" and 1e3 for an integer, and takes "--config.a.b false" for true; therefore
they are parsed here.
"""

import argparse
import ast
import math
import textwrap
from collections.abc import Sequence
from typing import Any

from ml_collections import ConfigDict

from vit_jax.config.settings import FIELDS
from vit_jax.config.values import flatten, settle_changes
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


def apply_overrides(
    config: ConfigDict, arguments: Sequence[str], flags: Sequence[str] = ()
) -> ConfigDict:
    """A copy of a config, changed by command-line arguments.

    Args:
      config: stays as it is.
      arguments: "--config.a.b=VALUE", or "--config.a.b" and "VALUE". A value is a
        Python literal such as 0.1, None or (1, 2), or true or false, or plain text.
      flags: the command's other arguments, for "did you mean".

    Raises:
      UserError: an argument has another form, or a key or value is refused, or as
        `settle_changes`.
    """
    config = config.copy_and_resolve_references()
    rest, changed = list(arguments), {}
    while rest:
        argument = rest.pop(0)
        if argument.partition("=")[0] == "--flagfile":
            raise UserError(
                f"{argument} is not supported; write the settings into a config file "
                "and give --config=FILE.py."
            )
        if not argument.startswith("--config."):
            hint = "settings are written --config.group.name=value"
            if argument.endswith(".py") and not argument.startswith("-"):
                hint = f"write --config={argument}"
            raise UserError(
                f"Unknown argument {argument}{did_you_mean(argument, flags)}; {hint}."
            )
        key, equals, text = argument.removeprefix("--config.").partition("=")
        if not equals:
            if not rest:
                raise UserError(f"{argument} needs a value: {argument}=VALUE.")
            text = rest.pop(0)
        takes_text = key in FIELDS and FIELDS[key].allowed == "text"
        config[key] = text if takes_text else _parse_value(text)
        before = [name for name in changed if name.startswith("stages.")]
        if key == "stages" and before:
            raise UserError(
                f"--config.{before[0]} stands before --config.stages, which replaces "
                "all stages; give --config.stages first."
            )
        changed[key] = None  # in the order of the arguments
    settle_changes(config, changed)
    return config


def _parse_value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return {"nan": math.nan, "inf": math.inf}.get(text.lower(), text)


def describe_fields(config: ConfigDict | None = None) -> str:
    """The table of settings as text: key, value, meaning and allowed values.

    Args:
      config: whose values are shown, and beside those that differ from it the default;
        None: the defaults.
    """
    wrap = textwrap.TextWrapper(80, initial_indent="    ", subsequent_indent="    ")
    own = dict(flatten(config or {}))
    lines = []
    for key, field in FIELDS.items():
        value = own.get(key, field.default)
        changed = f"  (default {field.default!r})" if value != field.default else ""
        lines += [
            f"{key} = {value!r}{changed}",
            wrap.fill(f"{field.meaning} Allowed: {field.allowed}."),
        ]
    return "\n".join(lines)


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
