"""Values of settings: defaults, assignment, and every check of them.

All settings are validated here, each by its row in `settings.FIELDS` and together by
`check_config`. Nothing here imports JAX, so a mistake is refused before anything is
compiled.
"""

from collections.abc import Iterator
from typing import Any

from ml_collections import ConfigDict

from vit_jax.config.settings import FIELDS
from vit_jax.config.stages import convert_stages, set_in_stage, stage_configs
from vit_jax.errors import UserError, did_you_mean


def default_config() -> ConfigDict:
    """All settings with their defaults, to start a config from.

        config = default_config()
        config.optim.learning_rate = 3e-4

    Any value can be assigned; `make_config`, which reads every config file, and
    `check_config`, which training calls first, refuse unknown keys and wrong values.
    """
    tree: dict[str, Any] = {}
    for key, field in FIELDS.items():
        *groups, name = key.split(".")
        node = tree
        for group in groups:
            node = node.setdefault(group, {})
        node[name] = field.default
    # Whether a value has the right type is decided by `FIELDS`, which also takes None
    # and whole numbers where a setting allows them.
    return ConfigDict(tree, type_safe=False)


def _convert(key: str, value: Any) -> Any:
    """The value of a setting in its proper type; `set_value` describes the errors."""
    if key == "stages":
        return convert_stages(value, _convert)
    if key not in FIELDS:
        raise UserError(
            f"There is no setting config.{key}{did_you_mean(key, FIELDS)}; "
            "`python -m vit_jax.main --list_keys` lists all."
        )
    try:
        return FIELDS[key].convert(value)
    except (ValueError, TypeError, OverflowError):
        raise UserError(
            f"config.{key} is {value!r}, but must be {FIELDS[key].allowed}."
        ) from None


def set_value(config: ConfigDict, key: str, value: Any) -> None:
    """Sets the setting named "a.b" to `value`, converted to its proper type.

    "stages.N.a.b" is the setting "a.b" of stage N.

    Raises:
      UserError: the key is unknown or the value not allowed; the message names the
        key, the value and what is allowed.
    """
    if key.startswith("stages."):
        value = set_in_stage(config.stages, key.removeprefix("stages."), value)
        key = "stages"
    value = _convert(key, value)
    *groups, name = key.split(".")
    for group in groups:
        config = config[group]
    config[name] = value


def flatten(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields ("a.b", value) for every leaf of a nested mapping."""
    for name, value in tree.items():
        if hasattr(value, "items"):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def make_config(settings: Any) -> ConfigDict:
    """The defaults, changed by a nested mapping of settings.

    Raises:
      UserError: the mapping has an unknown key or a value that is not allowed.
    """
    config = default_config()
    for key, value in flatten(settings):
        set_value(config, key, value)
    return config


def check_config(config: ConfigDict) -> None:
    """Refuses unknown keys, values that are not allowed, and impossible combinations.

    Raises:
      UserError: the message names the keys, their values and what is allowed.
    """
    for key, value in flatten(config):
        _convert(key, value)
    if config.time_budget and (config.stages or config.linear_probe):
        raise UserError(
            f"config.time_budget is {config.time_budget!r}, but config.stages and "
            "config.linear_probe have lengths of their own; switch one of them off."
        )
    if config.linear_probe and config.stages:
        raise UserError(
            "config.linear_probe is True, but config.stages has stages to train; "
            "switch the first off or set config.stages=()."
        )
    if config.linear_probe and config.model.distillation_token:
        raise UserError(
            "config.linear_probe is True, but config.model.distillation_token gives a "
            "second head, which a probe does not fit; switch one of them off."
        )
    if config.linear_probe and config.distill.teacher:
        raise UserError(
            "config.linear_probe is True, but config.distill.teacher is for steps, of "
            "which a probe trains none; switch one of them off."
        )
    for stage in stage_configs(config):
        _check_combinations(stage)


def _check_combinations(config: ConfigDict) -> None:
    if config.optim.name == "adam" and config.optim.weight_decay:
        raise UserError(
            f"config.optim.weight_decay is {config.optim.weight_decay:g}, but adam has "
            "none; set it to 0 or config.optim.name=adamw."
        )
    if config.optim.name == "muon" and not config.optim.learning_rate:
        raise UserError(
            "config.optim.learning_rate is 0, but the learning rate of muon is a "
            "multiple of it; give a learning rate above 0."
        )
    if config.num_steps is None and config.num_epochs == 0:
        raise UserError(
            "config.num_epochs is 0, but training needs a length; give a number above "
            "0, or config.num_steps."
        )
