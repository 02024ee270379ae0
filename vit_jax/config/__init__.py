"""Settings of a run: the table of all, config files, overrides, durations.

settings.py    the table: default, meaning and allowed values of every setting
fields.py      kinds of settings, each with its check
files.py       defaults, changed by a config file, changed by the command line
durations.py   "5 epochs", "300 steps" or "10%" in optimizer steps

Offers the functions of `files`. Imports `vit_jax.errors` only, and never JAX: a wrong
setting is refused before anything is compiled.
"""

from vit_jax.config.files import (
    apply_overrides,
    check_config,
    config_files,
    default_config,
    describe_fields,
    flatten,
    load_config_file,
    make_config,
    read_saved_config,
    set_value,
)

__all__ = [
    "apply_overrides",
    "check_config",
    "config_files",
    "default_config",
    "describe_fields",
    "flatten",
    "load_config_file",
    "make_config",
    "read_saved_config",
    "set_value",
]
