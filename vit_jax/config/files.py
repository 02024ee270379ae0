"""Configs: defaults from `settings`, changed by a file, changed by the command line.

A config file under `configs/` says only what differs from the defaults:

    --config=configs/vit_cifar.py --config.model.depth=4 --config.seed=1

A config of that folder is also known by its name, from any folder: --config=vit_cifar.
Nothing here touches JAX: a wrong key or value is refused before anything is compiled.
"""

import ast
import importlib.util
import inspect
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from ml_collections import ConfigDict

import vit_jax
from vit_jax.config.settings import FIELDS
from vit_jax.errors import UserError, did_you_mean


def default_config() -> ConfigDict:
    """The defaults of `FIELDS` as a nested ConfigDict."""
    tree: dict[str, Any] = {}
    for key, field in FIELDS.items():
        *groups, name = key.split(".")
        node = tree
        for group in groups:
            node = node.setdefault(group, {})
        node[name] = field.default
    return ConfigDict(tree)


def set_value(config: ConfigDict, key: str, value: Any) -> None:
    """Sets "a.b" to `value` in its proper type.

    Raises:
      UserError: no such key, or a value it may not have; the message names the key,
        the value and what is allowed.
    """
    if key not in FIELDS:
        raise UserError(
            f"There is no setting config.{key}{did_you_mean(key, FIELDS)}; "
            "`python -m vit_jax.main --list_keys` lists all."
        )
    try:
        value = FIELDS[key].convert(value)
    except (ValueError, TypeError, OverflowError):
        raise UserError(
            f"config.{key} is {value!r}, but must be {FIELDS[key].allowed}."
        ) from None
    node = config
    for group in key.split(".")[:-1]:
        node = node[group]
    with node.unlocked(), node.ignore_type():
        node[key.split(".")[-1]] = value


def flatten(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """("a.b", value) of every leaf of a nested mapping."""
    for name, value in tree.items():
        if hasattr(value, "items"):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def make_config(settings: Any) -> ConfigDict:
    """The defaults, changed by a nested mapping of settings; each value is checked."""
    config = default_config()
    for key, value in flatten(settings):
        set_value(config, key, value)
    return config


def read_saved_config(settings: Any) -> ConfigDict:
    """`make_config` of a run folder's config.json, of this version or an earlier one.

    Earlier versions had data.validation="test" for what is select_on="test",
    optim.accumulate_steps for num_microbatches, and said how a model starts by keys
    that do not matter once it has been trained.
    """
    saved = {key: dict(v) if hasattr(v, "items") else v for key, v in settings.items()}
    if saved.get("data", {}).get("validation") == "test":
        saved["data"] |= {"validation": 0, "select_on": "test"}
    optim = saved.get("optim", {})
    if "accumulate_steps" in optim:
        optim["num_microbatches"] = optim.pop("accumulate_steps")
    for key in ("position_init", "attention_init"):
        saved.get("model", {}).pop(key, None)
    return make_config(saved)


def config_files() -> dict[str, pathlib.Path]:
    """The file of each config that comes with this package, by its name."""
    package = pathlib.Path(vit_jax.__file__).parent
    # A wheel has the configs inside the package, a checkout has them beside it.
    inside, beside = package / "configs", package.parent / "configs"
    folder = inside if inside.is_dir() else beside
    return {file.stem: file for file in sorted(folder.glob("*.py"))}


def _find_config_file(name: str) -> pathlib.Path:
    known = config_files()
    if name in known:
        return known[name]
    file = pathlib.Path(name)
    if file.is_file() and file.suffix == ".py":
        return file
    near = sorted(str(path) for path in file.parent.glob("*.py"))
    guess = did_you_mean(name, near) or did_you_mean(file.stem, known)
    raise UserError(
        f"There is no config file {name}{guess}; give the path of a .py file or one of "
        f"these names: {', '.join(known)}."
    )


def load_config_file(path: str) -> ConfigDict:
    """Runs `get_config()` of a config, or `get_config("variant")`.

    Args:
      path: "FILE.py" or "FILE.py:variant"; in place of FILE.py also the name of a
        config that comes with this package, such as "vit_digits".

    Raises:
      UserError: no such file, no `get_config` in it, or a setting that is refused.
    """
    name, _, variant = path.partition(":")
    file = _find_config_file(name)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "get_config"):
        raise UserError(f"{name} has no function get_config(), which a config needs.")
    takes_variant = bool(inspect.signature(module.get_config).parameters)
    if variant and not takes_variant:
        raise UserError(f"{name} has no variants; write --config={name}.")
    try:
        settings = module.get_config(variant) if variant else module.get_config()
    except KeyError as error:
        raise UserError(
            f"{name} has no variant {error.args[0]!r}; its header lists them."
        ) from None
    return make_config(settings)


def apply_overrides(
    config: ConfigDict, arguments: Sequence[str], flags: Sequence[str] = ()
) -> ConfigDict:
    """A copy of `config` with "--config.a.b=value" arguments applied.

    Values are Python literals (0.1, None, (1, 2)), true and false, or plain text.
    `flags` are the command's other arguments, for "did you mean".

    Raises:
      UserError: an argument of another form, or a setting that is refused.
    """
    config = config.copy_and_resolve_references()
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("--config."):
            raise UserError(
                f"Unknown argument {argument}{did_you_mean(argument, flags)}; settings "
                "are written --config.group.name=value."
            )
        key, equals, text = argument.removeprefix("--config.").partition("=")
        if not equals:
            if not rest:
                raise UserError(f"{argument} needs a value: {argument}=VALUE.")
            text = rest.pop(0)
        takes_text = key in FIELDS and FIELDS[key].allowed == "text"
        set_value(config, key, text if takes_text else _parse_value(text))
    return config


def _parse_value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return {"nan": math.nan, "inf": math.inf}.get(text.lower(), text)


def check_config(config: ConfigDict) -> None:
    """Refuses settings that are fine alone and impossible together.

    Raises:
      UserError: naming the keys, their values and what is allowed.
    """
    if config.optim.name == "adam" and config.optim.weight_decay:
        raise UserError(
            f"config.optim.weight_decay is {config.optim.weight_decay:g}, but adam has "
            "none; set it to 0 or config.optim.name=adamw."
        )
    if config.augment.randaugment_magnitude > 30:
        raise UserError(
            "config.augment.randaugment_magnitude is "
            f"{config.augment.randaugment_magnitude}, but its 31 bins are 0 to 30."
        )
    if config.optim.name == "muon" and not config.optim.learning_rate:
        raise UserError(
            "config.optim.learning_rate is 0, but muon's rate is a multiple of it; "
            "give a rate above 0."
        )
    if config.num_steps is None and config.num_epochs == 0:
        raise UserError("config.num_epochs is 0; give a length above 0, or num_steps.")


def describe_fields() -> str:
    """The table of settings as text."""
    lines = []
    for key, field in FIELDS.items():
        meaning = " ".join(filter(None, (field.meaning, f"({field.allowed})")))
        lines.append(f"{key} = {field.default!r}\n    {meaning}")
    return "\n".join(lines)
