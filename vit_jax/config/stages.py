"""Stages: parts of one training, one after another, each with settings of its own.

`config.stages` is a sequence of mappings. Each one names the settings in which its
stage differs from the rest of the config, and must say how long the stage is:

    config.stages = (
        {"num_epochs": 10, "optim.trainable": "head", "optim.learning_rate": 3e-4},
        {"num_epochs": 90, "optim.learning_rate": 3e-5},
    )

On the command line --config.stages.1.num_epochs=5 changes one of them. Without stages
the whole training is one stage.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from vit_jax.errors import UserError, show

_LENGTHS = ("num_epochs", "num_steps")
_GROUPS = ("augment", "early_stopping", "optim", "schedule")
# The moving average of the parameters continues from one stage to the next.
_OF_THE_RUN = ("optim.ema_decay",)


def convert_stages(
    value: Any, convert: Callable[[str, Any], Any]
) -> tuple[dict[str, Any], ...]:
    """The stages with every value in the type of its setting.

    Args:
      value: what was assigned to `config.stages`.
      convert: (key, value) -> the converted value, or a UserError.

    Raises:
      UserError: it is no sequence of mappings, or a key or value is refused.
    """
    is_sequence = isinstance(value, Sequence) and not isinstance(value, str)
    if not is_sequence or not all(isinstance(stage, Mapping) for stage in value):
        raise UserError(
            f"config.stages is {show(value)}, but must be a list of mappings from "
            "settings to values, such as "
            '[{"num_epochs": 10, "optim.trainable": "head"}].'
        )
    return tuple(
        {str(key): _convert(i, str(key), one, convert) for key, one in stage.items()}
        for i, stage in enumerate(value)
    )


@contextlib.contextmanager
def naming_stage(index: int, keys: Iterable[str]) -> Iterator[None]:
    """A UserError about one of these settings names it as that of stage `index`."""
    try:
        yield
    except UserError as error:
        message = str(error)
        for key in keys:
            of_run = rf"\bconfig\.{re.escape(key)}\b"
            message = re.sub(of_run, f"config.stages.{index}.{key}", message)
        raise UserError(message) from error.__cause__


def _convert(index: int, key: str, value: Any, convert: Callable) -> Any:
    with naming_stage(index, [key]):
        converted = convert(key, value)
    may_differ = key in _LENGTHS or key.partition(".")[0] in _GROUPS
    if not may_differ or key in _OF_THE_RUN:
        raise UserError(
            f"config.stages.{index} sets {key}, which holds for a whole run; a stage "
            f"may set {', '.join(_LENGTHS)} and the groups {', '.join(_GROUPS)} "
            f"(without {', '.join(_OF_THE_RUN)})."
        )
    return converted


def set_in_stage(
    stages: Sequence[Mapping[str, Any]], key: str, value: Any
) -> list[dict[str, Any]]:
    """The stages with one setting of one of them changed.

    A length replaces the stage's other one.

    Args:
      key: "N.SETTING", with N from 0.

    Raises:
      UserError: there is no such stage.
    """
    index, _, name = key.partition(".")
    if not index.isdecimal() or int(index) >= len(stages) or not name:
        known = ", ".join(f"config.stages.{i}" for i in range(len(stages)))
        raise UserError(
            f"There is no config.stages.{key}; this config has "
            f"{known or 'no stages'}, and a setting's name follows the number."
        )
    changed = [dict(stage) for stage in stages]
    stage = changed[int(index)]
    if name in _LENGTHS and value not in (None, 0):
        for length in _LENGTHS:
            stage.pop(length, None)
    stage[name] = value
    return changed


def stage_configs(config: ConfigDict) -> list[ConfigDict]:
    """The complete settings of each stage, at least one; none of them has `stages`.

    Raises:
      UserError: a stage has no length, or two.
    """
    configs = []
    for index, stage in enumerate(config.stages or ({},)):
        own = config.copy_and_resolve_references()
        own.stages = ()
        if config.stages:
            given = [name for name in _LENGTHS if stage.get(name)]
            if len(given) != 1:
                both = "both" if given else "no"
                raise UserError(
                    f"config.stages.{index} has {both} num_epochs and num_steps above "
                    "0, but every stage needs one length; give it one of them."
                )
            own.num_steps = None
        for key, value in stage.items():
            own[key] = value
        configs.append(own)
    return configs
