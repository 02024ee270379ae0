"""Settings of a run: the table of all, config files, overrides, durations.

settings.py       the table: default, meaning and allowed values of every setting;
                  model_settings.py and augment_settings.py are parts of it
fields.py         kinds of settings, each with its check
values.py         defaults, assignment and validation
files.py          config files
command_line.py   --config.group.name=value, the list of settings, and what may differ
                  when a finished run is scored
stages.py         parts of one training, each with settings of its own
durations.py      "5 epochs", "300 steps" or "10%" in optimizer steps; time budgets

`load_config` and `load_config_file` give a config, whose settings are read as
`config.group.name`.

Imports `vit_jax.errors` only, and never JAX: a wrong setting is refused before
anything is compiled.
"""

from vit_jax.config.command_line import apply_overrides, describe_fields
from vit_jax.config.files import (
    config_files,
    load_config,
    load_config_file,
)
from vit_jax.config.values import (
    check_config,
    default_config,
    flatten,
    make_config,
)

__all__ = [
    "apply_overrides",
    "check_config",
    "config_files",
    "default_config",
    "describe_fields",
    "flatten",
    "load_config",
    "load_config_file",
    "make_config",
]
