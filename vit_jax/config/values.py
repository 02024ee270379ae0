"""Values of settings: defaults, assignment, and every check of them.

All settings are validated here: each by its row in `settings.FIELDS` when it is set,
and together by `check_config`. Nothing here imports JAX, so a mistake is refused before
anything is compiled.
"""

from collections.abc import Collection, Iterator
from typing import Any

from ml_collections import ConfigDict

from vit_jax.config.settings import FIELDS
from vit_jax.config.stages import convert_stages, set_in_stage, stage_configs
from vit_jax.errors import UserError, did_you_mean, show

# Beginning of settings' names -> the setting on which their effect depends, and the
# values with which they have one; or the settings of which one must be switched on.
_EFFECTIVE_WITH: dict[str, tuple[str, tuple[str, ...]] | list[str]] = {
    "mae.": ("objective", ("masked_autoencoding",)),
    "distill.": ["distill.teacher"],
    "pretrained.": ["pretrained.path"],
    "augment.crop_padding_": ("augment.crop", ("pad",)),
    "augment.crop_min_area": ("augment.crop", ("resized",)),
    "augment.randaugment_": ("augment.policy", ("randaugment",)),
    "augment.erase_": ["augment.erase_prob"],
    "augment.mix_": ["augment.mixup_alpha", "augment.cutmix_alpha"],
    "early_stopping.after": ["early_stopping.patience", "early_stopping.target"],
    "optim.b1": ("optim.name", ("adamw", "adam", "muon")),
    "optim.b2": ("optim.name", ("adamw", "adam", "muon")),
    "optim.eps": ("optim.name", ("adamw", "adam", "muon")),
    "optim.momentum": ("optim.name", ("sgd", "muon")),
    "optim.nesterov": ("optim.name", ("sgd", "muon")),
    "optim.decay_all": ("optim.name", ("adamw", "sgd", "muon")),
    "optim.muon_": ("optim.name", ("muon",)),
    "schedule.milestone_": ("schedule.name", ("milestones",)),
    "schedule.plateau_": ("schedule.name", ("plateau",)),
    "schedule.floor": ("schedule.name", ("warmup_cosine", "linear")),
}

# Groups of settings that a linear probe ignores, and the two settings in them that it
# reads: averages of the parameters, where there are any, are a part of its checkpoint.
_OF_STEPS = ("augment.", "early_stopping.", "optim.", "schedule.")
_OF_A_PROBE = ("optim.class_weights", "optim.ema_decay")


class Settings(ConfigDict):
    """All settings, or one group of them; every value is checked when it is set.

        config = default_config()
        config.optim.learning_rate = 3e-4
        config["optim.learning_rate"] = 3e-4  # the same
        config["stages.1.optim.learning_rate"] = 3e-4  # of the second stage
        config.schedule = {"name": "linear", "warmup": 5}  # others keep theirs

    Raises:
      UserError: on assignment; the key is unknown or the value not allowed. The message
        names the key, the value and what is allowed.
    """

    def __init__(self, group: str = ""):
        """The defaults of a group such as "optim.", or of all settings ("")."""
        # `FIELDS` decides about types: it takes None and whole numbers where a setting
        # allows them, and converts values, which ConfigDict's own check does not.
        super().__init__(type_safe=False)
        object.__setattr__(self, "_group", group)
        for key, field in FIELDS.items():
            if key.startswith(group):
                name, dot, _ = key.removeprefix(group).partition(".")
                if not dot:
                    super().__setitem__(name, field.default)
                elif name not in self:
                    super().__setitem__(name, Settings(f"{group}{name}."))
        self.lock()  # No setting can be deleted.

    def __setitem__(self, name: str, value: Any) -> None:
        key = f"{self._group}{name}"
        group, dot, rest = str(name).partition(".")
        if dot and key.startswith("stages."):
            self["stages"] = set_in_stage(self.stages, rest, value)
            return
        if dot and isinstance(self.get(group), Settings):
            self[group][rest] = value
            return
        # `get` of a dotted name below a setting that is no group would fail.
        if dot or not isinstance(self.get(name), Settings):
            super().__setitem__(name, _convert(key, value))
            return
        if not hasattr(value, "items"):
            raise UserError(
                f"config.{key} is {show(value)}, but is a group of settings; set one "
                f"of them, such as config.{key}.{next(iter(self[name]))}."
            )
        for inner, one in value.items():
            self[name][inner] = one

    def copy_and_resolve_references(self, visit_map: Any = None) -> "Settings":
        """A copy that shares nothing with this config."""
        copied = Settings(self._group)
        for name, value in self.items():
            copied[name] = value
        return copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def default_config() -> ConfigDict:
    """All settings with their defaults, to start a config from; see `Settings`."""
    return Settings()


def _convert(key: str, value: Any) -> Any:
    """The value of a setting in its proper type; see `Settings`."""
    if key == "stages":
        return convert_stages(value, _convert)
    if key not in FIELDS:
        raise UserError(
            f"There is no setting config.{key[:200]}{did_you_mean(key, FIELDS)}; "
            "`python -m vit_jax.main --list_keys` lists all."
        )
    try:
        return FIELDS[key].convert(value)
    except (ValueError, TypeError, OverflowError, UserError):
        is_time = key in ("num_epochs", "num_steps") and isinstance(value, str)
        hint = "; config.time_budget takes a time" if is_time else ""
        raise UserError(
            f"config.{key} is {show(value)}, but must be {FIELDS[key].allowed}{hint}."
        ) from None


def flatten(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields ("a.b", value) for every leaf of a nested mapping."""
    for name, value in tree.items():
        if hasattr(value, "items"):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def make_config(settings: Any) -> ConfigDict:
    """The defaults, changed by a mapping of settings, nested or with dotted keys.

    Raises:
      UserError: it is no mapping, or has an unknown key or a value that is not allowed.
    """
    if not hasattr(settings, "items"):
        raise UserError(
            f"{show(settings)} is no config; give what vit_jax.load_config returns, or "
            "a mapping of settings."
        )
    config = default_config()
    for key, value in settings.items():
        config[key] = value
    return config


def require_switched_on(config: ConfigDict, switch: str, give: str) -> None:
    """Refuses settings of a group that have no effect, because its switch is ''.

    Args:
      switch: the setting, such as "distill.teacher".
      give: what a user has to give it.

    Raises:
      UserError: the switch is '', and another setting of its group is no default.
    """
    group = switch.partition(".")[0]
    for name, value in config[group].items():
        if not config[switch] and value != FIELDS[f"{group}.{name}"].default:
            raise UserError(
                f"config.{group}.{name} is {show(value)}, which has an effect only "
                f"with config.{switch}, but that is ''; give {give}."
            )


def reset_steps(config: ConfigDict) -> None:
    """Gives a linear probe, which takes no step, the defaults of what is for steps."""
    for key, field in FIELDS.items():
        is_length = key in ("num_epochs", "num_steps", "stages")
        if is_length or (key.startswith(_OF_STEPS) and key not in _OF_A_PROBE):
            config[key] = field.default


def settle_changes(config: ConfigDict, changed: Collection[str]) -> None:
    """Refuses settings that were changed, but have no effect beside the others.

    A config file may have them: it can hold what is needed once another setting, on
    the command line, is switched on. Only a length of the file is dropped where stages,
    each of which has its own, were given.

    Args:
      changed: dotted names of settings.

    Raises:
      UserError: a setting depends on another one that is off, all stages have their own
        value of it, it is for steps and a linear probe trains none, or it is a length
        of training that another one replaces.
    """
    if "stages" in changed and config.stages:
        for key in {"num_epochs", "num_steps", "time_budget"}.difference(changed):
            config[key] = FIELDS[key].default
    for key in changed:
        is_length = key in ("num_epochs", "num_steps") and config[key]
        is_rule = key.startswith(_OF_STEPS) and key != "optim.class_weights"
        if config.linear_probe and (is_length or is_rule):
            raise UserError(
                f"config.{key} is {show(config[key])}, but config.linear_probe trains "
                f"no step; leave config.{key} out."
            )
        if config.linear_probe and config.stages and key.startswith("stages"):
            raise UserError(
                f"config.linear_probe trains no step, so that config.{key} has no "
                "effect; leave it out."
            )
    _check_lengths(config, changed)
    for key in changed:
        overridden = [stage for stage in config.stages if key in stage]
        if config.stages and len(overridden) == len(config.stages):
            raise UserError(
                f"config.{key} is {show(config[key])}, but has no effect, since each "
                f"of config.stages has its own; set config.stages.0.{key}, and so on."
            )
    idle = {key: why for key in changed if (why := _why_idle(config, key))}
    if idle:
        key, why = next(iter(idle.items()))
        keys = " and ".join(f"config.{key}" for key in idle)
        raise UserError(f"config.{key} {why}, or leave {keys} out.")


def _why_idle(config: ConfigDict, changed: str) -> str:
    """Why a setting, perhaps one of a stage, has no effect: which one switches it off.

    The text continues a sentence that begins with the name; it is "" where there is an
    effect.
    """
    in_stage = changed.startswith("stages.")
    index, key = changed.split(".", 2)[1:] if in_stage else ("0", changed)
    needs = next((n for s, n in _EFFECTIVE_WITH.items() if key.startswith(s)), None)
    if needs is None:
        return ""
    configs = stage_configs(config)
    own = configs[int(index)]
    value, scope = own[key], [own] if in_stage else configs
    if value == FIELDS[key].default:
        return ""
    if isinstance(needs, list):
        if any(one[switch] for one in scope for switch in needs):
            return ""
        names = [
            f"config.{'stages.' + index + '.' if in_stage else ''}{n}" for n in needs
        ]
        return (
            f"is {show(value)}, but has an effect only with {' or '.join(names)}, "
            f"which is off; set {names[0]}"
        )
    switch, values = needs
    if any(one[switch] in values for one in scope):
        return ""
    in_that = switch in config.stages[int(index)] if config.stages else False
    name = f"stages.{index}.{switch}" if in_stage or in_that else switch
    return (
        f"is {show(value)}, but has an effect only with config.{name}="
        f"{' or '.join(values)}, and that is {own[switch]}; change config.{name}"
    )


def _check_lengths(config: ConfigDict, changed: Collection[str]) -> None:
    for index in range(len(config.stages)):
        both = [f"stages.{index}.{key}" for key in ("num_epochs", "num_steps")]
        if all(key in changed for key in both):
            raise UserError(
                f"config.{both[0]} and config.{both[1]} each give a length; leave one "
                "of them out."
            )
    for key, other in (
        ("num_epochs", "num_steps"),
        ("num_epochs", "time_budget"),
        ("time_budget", "num_steps"),
        ("data.validation", "data.val_per_class"),
        ("data.validation_fraction", "data.val_per_class"),
    ):
        if key in changed and config[key] and config[other]:
            raise UserError(
                f"config.{key} is {show(config[key])}, but config.{other}="
                f"{config[other]} replaces it; set config.{other} to None, or "
                f"leave config.{key} out."
            )


def check_config(config: ConfigDict) -> None:
    """Refuses impossible combinations; each value was checked when it was set.

    Raises:
      UserError: the message names the keys, their values and what is allowed.
    """
    if config.time_budget and (config.stages or config.linear_probe):
        raise UserError(
            f"config.time_budget is {show(config.time_budget)}, but config.stages and "
            "config.linear_probe have lengths of their own; switch one of them off."
        )
    for key in ("num_epochs", "num_steps"):
        changed = config[key] != FIELDS[key].default
        if changed and config.stages and not config.linear_probe:
            raise UserError(
                f"config.{key} is {show(config[key])}, but each of config.stages has a "
                f"length of its own; set config.stages.0.{key}, and so on, instead."
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
    # A probe replaces the stages and takes no step.
    for stage in [] if config.linear_probe else stage_configs(config):
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
    has_length = config.num_steps or config.num_epochs or config.time_budget
    if not has_length:
        raise UserError(
            "config.num_epochs is 0, but training needs a length; give a number above "
            "0, or config.num_steps."
        )
