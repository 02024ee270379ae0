"""Every setting of a run: its default, its unit, what it may be.

A config file under `configs/` says only what differs from the defaults here; the
command line overrides both:

    --config=configs/vit_cifar.py --config.model.depth=4 --config.seed=1

`main --list_keys` prints this table. Nothing here touches JAX: a wrong key or value is
refused before anything is compiled.
"""

import ast
import dataclasses
import importlib.util
import inspect
import math
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ml_collections import ConfigDict

from vit_jax.durations import parse_duration
from vit_jax.errors import UserError, did_you_mean


@dataclasses.dataclass(frozen=True)
class Field:
    """One setting.

    Attributes:
      default: its value when nobody says otherwise.
      meaning: what it does, with its unit.
      allowed: the values it may take, in words, for messages.
      convert: returns the value in its proper type, or raises ValueError.
    """

    default: Any
    meaning: str
    allowed: str
    convert: Callable[[Any], Any]


def _integer(default: int | None, meaning: str, low: int = 0, optional: bool = False):
    def convert(value):
        if value is None and optional:
            return None
        if isinstance(value, bool) or value != int(value) or value < low:
            raise ValueError
        return int(value)

    allowed = f"a whole number of at least {low}" + (" or None" if optional else "")
    return Field(default, meaning, allowed, convert)


def _number(
    default: float | None,
    meaning: str,
    low: float = 0.0,
    high: float = math.inf,
    open_high: bool = False,
    optional: bool = False,
):
    def convert(value):
        if value is None and optional:
            return None
        if isinstance(value, bool | str) or not math.isfinite(value):
            raise ValueError
        if not low <= value <= high or (open_high and value == high):
            raise ValueError
        return float(value)

    span = f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
    allowed = f"a number {span}" + (" (not included)" if open_high else "")
    return Field(default, meaning, allowed + (" or None" if optional else ""), convert)


def _choice(default: str | None, meaning: str, *options: str | None):
    def convert(value):
        if value not in options:
            raise ValueError
        return value

    return Field(default, meaning, "one of " + ", ".join(map(str, options)), convert)


def _switch(default: bool | None, meaning: str, optional: bool = False):
    def convert(value):
        if not isinstance(value, bool) and not (optional and value is None):
            raise ValueError
        return value

    allowed = "True or False" + (" or None" if optional else "")
    return Field(default, meaning, allowed, convert)


def _text(default: str, meaning: str):
    def convert(value):
        if not isinstance(value, str):
            raise ValueError
        return value

    return Field(default, meaning, "text", convert)


def _duration(default: str | float | None, meaning: str, optional: bool = False):
    def convert(value):
        if value is None and optional:
            return None
        try:
            parse_duration(value)
        except UserError as error:
            raise ValueError from error
        return value

    allowed = 'a duration such as "5 epochs", "300 steps", "10%" or 5 (epochs)'
    return Field(default, meaning, allowed + (" or None" if optional else ""), convert)


def _numbers(default: Sequence[float] | None, meaning: str, above: float | None = None):
    def convert(value):
        if value is None:
            return None
        numbers = tuple(float(x) for x in value)
        low = -math.inf if above is None else above
        if not numbers or not all(low < x < math.inf for x in numbers):
            raise ValueError
        return numbers

    allowed = "None or a list of numbers" + (f" above {above:g}" if above == 0 else "")
    return Field(default, meaning, allowed, convert)


_MODEL = "None: as the named model has it."

# "a.b": Field. The order is the order of `--list_keys`.
FIELDS: dict[str, Field] = {
    "seed": _integer(0, "Root of every random number of the run, data split apart."),
    "batch_size": _integer(128, "Images per optimizer step, over all devices.", 1),
    "num_epochs": _number(100.0, "Length of training, in passes over the train split."),
    "num_steps": _integer(
        None, "Length in optimizer steps, in place of num_epochs.", 1, optional=True
    ),
    "log_every": _duration("50 steps", "Between two lines of training metrics."),
    "eval_every": _duration("1 epoch", "Between two evaluations on the val split."),
    "checkpoint_every": _duration(
        "1 epoch", "Between two checkpoints; each new best is saved as well."
    ),
    "eval_batch_size": _integer(500, "Images per evaluation step, over all devices.", 1),
    "num_devices": _integer(0, "Devices of the mesh; 0: all there are."),
    "tensorboard": _switch(False, "Also write TensorBoard files (needs TensorFlow)."),
    "parameter_overview": _switch(False, "Print every parameter at start-up."),
    # ---- data
    "data.source": _text("tfds", "tfds, cifar_files, folder or digits."),
    "data.name": _text("cifar10", "Dataset, for tfds and cifar_files."),
    "data.dir": _text(
        "", "Folder (or archive, for cifar_files) to read; '': the source's usual place."
    ),
    "data.archive": _text(
        "", "tfds: official archive to prepare CIFAR from, without the internet."
    ),
    "data.download": _switch(True, "May the source fetch what is missing?"),
    "data.validation": Field(
        5000,
        "Train images held out to select on, stratified by class; 'test': select on the "
        "test split, as the original studies did.",
        "a whole number of at least 1, or 'test'",
        lambda v: v if v == "test" else _integer(0, "", 1).convert(v),
    ),
    "data.split_seed": _integer(0, "Draws the hold-out and the subsets."),
    "data.train_per_class": _integer(
        None, "Images of each class to train on; None: all.", 1, optional=True
    ),
    "data.val_per_class": _integer(
        None, "Hold-out images of each class, in place of validation.", 1, optional=True
    ),
    "data.subset_test_per_class": _integer(
        0, "Train images of each class for a second test split, 'subset_test'."
    ),
    "data.image_size": _integer(
        None, "Side in pixels that folder images are resized to.", 1, optional=True
    ),
    "data.mean": _numbers(None, "Channel means, 0 to 1; None: the dataset's."),
    "data.std": _numbers(None, "Channel deviations, 0 to 1; None: the dataset's.", 0),
    # ---- augmentation, on the device, training only
    "augment.crop": _choice(
        "pad", "Random crop after padding, random resized crop, or none.",
        "pad", "resized", "none",
    ),
    "augment.crop_padding_pixels": _integer(4, "Padding of the 'pad' crop, each side."),
    "augment.crop_padding_mode": _choice(
        "zero", "What is padded with.", "zero", "reflect", "edge"
    ),
    "augment.crop_min_area": _number(
        0.8, "Smallest share of the image a 'resized' crop keeps.", 0.01, 1.0
    ),
    "augment.flip": _choice(
        "random", "Horizontal flip: by chance, every other epoch, or never.",
        "random", "alternating", "none",
    ),
    "augment.policy": _choice(
        "none", "Further image operations.",
        "none", "randaugment", "trivialaugment", "autoaugment",
    ),
    "augment.randaugment_num_ops": _integer(2, "Operations per image.", 1),
    "augment.randaugment_magnitude": _integer(9, "Bin of 31, 0 (none) to 30."),
    "augment.erase_prob": _number(0.0, "Chance of erasing a rectangle.", 0.0, 1.0),
    "augment.erase_fill": _choice("zero", "What the rectangle holds.", "zero", "noise"),
    "augment.mixup_alpha": _number(0.0, "MixUp's Beta(alpha, alpha); 0: off."),
    "augment.cutmix_alpha": _number(0.0, "CutMix's Beta(alpha, alpha); 0: off."),
    "augment.mix_prob": _number(1.0, "Chance that a batch or image is mixed.", 0, 1),
    "augment.mix_switch_prob": _number(
        0.5, "Chance of CutMix, where both are on.", 0.0, 1.0
    ),
    "augment.mix_per": _choice("batch", "One draw for each.", "batch", "image"),
    "augment.mix_until": _duration("100%", "When mixing is switched off."),
    "augment.label_smoothing": _number(
        0.0, "Share of each target spread evenly over the classes.", 0, 1, open_high=True
    ),
    # ---- model
    "model.name": _text("vit", "A row of vit_jax.models.MODELS."),
    "model.dtype": _choice(
        "auto", "Of the computation (parameters stay float32); auto: bfloat16 on GPU and "
        "TPU.", "auto", "bfloat16", "float32",
    ),
    "model.patch_size": _integer(None, f"Pixels. {_MODEL}", 1, optional=True),
    "model.width": _integer(None, f"Of the tokens; ResNet: first stage. {_MODEL}", 1,
                            optional=True),
    "model.depth": _integer(None, f"Blocks. {_MODEL}", 1, optional=True),
    "model.num_heads": _integer(None, f"Attention heads. {_MODEL}", 1, optional=True),
    "model.mlp_ratio": _number(None, f"MLP over token width. {_MODEL}", 0.1,
                               optional=True),
    "model.qkv_bias": _switch(None, f"Bias in query, key, value. {_MODEL}", True),
    "model.position_embedding": _choice(
        None, _MODEL, "learned", "sinusoidal_1d", "sinusoidal_2d", "none", None
    ),
    "model.position_init": _choice(
        None, f"Of learned positions. {_MODEL}", "normal", "zeros", None
    ),
    "model.pooling": _choice(
        None, f"From tokens to one vector. {_MODEL}", "cls", "mean", "sequence", None
    ),
    "model.norm_position": _choice(
        None, f"LayerNorm before or after each sublayer. {_MODEL}", "pre", "post", None
    ),
    "model.final_norm": _switch(None, f"LayerNorm before the head. {_MODEL}", True),
    "model.patch_norm": _switch(None, f"LayerNorm on embedded patches. {_MODEL}", True),
    "model.dropout": _number(
        None, f"After attention's projection and both MLP layers. {_MODEL}", 0, 1,
        open_high=True, optional=True,
    ),
    "model.embedding_dropout": _number(
        None, f"After positions are added. {_MODEL}", 0, 1, open_high=True, optional=True
    ),
    "model.attention_dropout": _number(
        None, f"On attention weights. {_MODEL}", 0, 1, open_high=True, optional=True
    ),
    "model.mlp_output_dropout": _number(
        None, f"Once more on each MLP sublayer's output (system D). {_MODEL}", 0, 1,
        open_high=True, optional=True,
    ),
    "model.drop_path": _number(
        None, f"Stochastic depth of the last block, linear from 0. {_MODEL}", 0, 1,
        open_high=True, optional=True,
    ),
    "model.layer_scale": _number(
        None, f"Initial scale of residual branches; 0: none. {_MODEL}", optional=True
    ),
    "model.qk_norm": _switch(None, f"LayerNorm on queries and keys. {_MODEL}", True),
    "model.num_registers": _integer(None, f"Extra tokens. {_MODEL}", optional=True),
    "model.stem": _choice(
        None, f"Patch projection, convolutions, or shifted patches. {_MODEL}",
        "patch", "conv", "shifted_patch", None,
    ),
    "model.stem_channels": _numbers(
        None, f"Of the conv stem's layers before the last, which has width. {_MODEL}", 0
    ),
    "model.local_attention": _switch(
        None, f"Learned temperature and masked diagonal (LSA). {_MODEL}", True
    ),
    "model.init": _choice(
        None, f"Of attention weights. {_MODEL}", "trunc_normal", "mimetic", None
    ),
    # ---- optimizer
    "optim.name": _choice("adamw", "", "adamw", "adam", "sgd", "muon"),
    "optim.learning_rate": _number(1e-3, "The schedule's peak."),
    "optim.b1": _number(0.9, "Adam's first moment.", 0, 1, open_high=True),
    "optim.b2": _number(0.999, "Adam's second moment.", 0, 1, open_high=True),
    "optim.eps": _number(1e-8, "Adam's denominator."),
    "optim.momentum": _number(0.9, "SGD's and Muon's.", 0, 1, open_high=True),
    "optim.nesterov": _switch(False, "SGD's form of momentum."),
    "optim.weight_decay": _number(
        0.05, "adamw, muon: decoupled; sgd: added to the gradient; adam: must be 0."
    ),
    "optim.decay_all": _switch(
        False, "Decay biases, norms, class token and positions too."
    ),
    "optim.muon_learning_rate": _number(0.02, "Muon's peak, for the blocks' matrices."),
    "optim.clip_norm": _number(0.0, "Largest global norm of the gradient; 0: off."),
    "optim.accumulate_steps": _integer(1, "Slices each batch is computed in.", 1),
    "optim.ema_decay": _number(
        0.0, "Of the parameters' moving average, per step; 0: off.", 0, 1, open_high=True
    ),
    # ---- schedule
    "schedule.name": _choice(
        "warmup_cosine", "", "warmup_cosine", "linear", "constant", "plateau"
    ),
    "schedule.warmup": _duration("5 epochs", "Linear rise from 0 to the peak."),
    "schedule.floor": _number(
        0.0, "Final rate over peak, of cosine and linear.", 0.0, 1.0
    ),
    "schedule.plateau_factor": _number(0.5, "Multiplies the rate on a plateau.", 0, 1),
    "schedule.plateau_patience": _integer(3, "Evaluations without a lower val loss.", 1),
    "schedule.plateau_min_delta": _number(1e-4, "Relative fall that counts as lower."),
    # ---- early stopping
    "early_stopping.patience": _integer(
        0, "Evaluations without a better val accuracy; 0: off."
    ),
    "early_stopping.target": _number(
        None, "Val accuracy at which to stop; None: off.", 0, 1, optional=True
    ),
    "early_stopping.after": _duration(0, "Never stop before this."),
}


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
        names = {name.split(".")[-1]: name for name in FIELDS}
        hint = did_you_mean(key, FIELDS)
        if not hint and (close := did_you_mean(key.split(".")[-1], names)):
            hint = f' (did you mean "{names[close.split(chr(34))[1]]}"?)'
        raise UserError(
            f"There is no setting config.{key}{hint}; "
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


def load_config_file(path: str) -> ConfigDict:
    """Runs `get_config()` of "FILE.py" or `get_config("variant")` of "FILE.py:variant".

    Raises:
      UserError: no such file, no `get_config` in it, or a setting that is refused.
    """
    name, _, variant = path.partition(":")
    file = pathlib.Path(name)
    if not file.is_file():
        near = sorted(str(p) for p in file.parent.glob("*.py"))
        raise UserError(
            f"There is no config file {name}{did_you_mean(name, near)}; run from the "
            "folder that holds configs/ or give the file's full path."
        )
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
        raise UserError(f"{name} has no variant {error.args[0]!r}; see its header.")
    return make_config(settings)


def apply_overrides(config: ConfigDict, arguments: Sequence[str]) -> ConfigDict:
    """A copy of `config` with "--config.a.b=value" arguments applied.

    Values are Python literals (0.1, None, (1, 2)), true and false, or plain text.

    Raises:
      UserError: an argument of another form, or a setting that is refused.
    """
    config = config.copy_and_resolve_references()
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("--config."):
            known = ("--config", "--workdir", "--list_keys", "--resume_with_changes")
            raise UserError(
                f"Unknown argument {argument}{did_you_mean(argument, known)}; settings "
                "are written --config.group.name=value."
            )
        key, equals, text = argument.removeprefix("--config.").partition("=")
        if not equals:
            if not rest:
                raise UserError(f"{argument} needs a value: {argument}=VALUE.")
            text = rest.pop(0)
        set_value(config, key, _parse_value(text))
    return config


def _parse_value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
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
    if config.batch_size % config.optim.accumulate_steps:
        raise UserError(
            f"config.optim.accumulate_steps is {config.optim.accumulate_steps}, but must "
            f"divide config.batch_size, which is {config.batch_size}."
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
