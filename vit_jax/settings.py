"""Every setting of a run: its default, its unit, what it may be.

`python -m vit_jax.main --list_keys` prints this table.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from vit_jax.durations import parse_duration
from vit_jax.errors import UserError


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


def _share(
    default: float | None, meaning: str, below_one: bool = False, optional: bool = False
):
    return _number(default, meaning, 0.0, 1.0, below_one, optional)


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


def _duration(default: str, meaning: str):
    def convert(value):
        try:
            parse_duration(value)
        except UserError as error:
            raise ValueError from error
        return value

    allowed = 'a duration such as "5 epochs", "300 steps", "10%" or 5 (epochs)'
    return Field(default, meaning, allowed, convert)


def _numbers(default: Sequence[float] | None, meaning: str, above: float = -math.inf):
    def convert(value):
        if value is None:
            return None
        numbers = tuple(float(x) for x in value)
        if (
            isinstance(value, str)
            or not numbers
            or not all(above < x < math.inf for x in numbers)
        ):
            raise ValueError
        return numbers

    allowed = "None or a list of numbers" + (f" above {above:g}" if above == 0 else "")
    return Field(default, meaning, allowed, convert)


_MODEL = "None: as the named model has it."


def _range(default: tuple[float, float], meaning: str, high: float = math.inf):
    def convert(value):
        low, top = (float(x) for x in value)
        if not (0 < low <= top <= high and math.isfinite(top)):
            raise ValueError
        return low, top

    allowed = "two numbers above 0, the smaller first"
    return Field(default, meaning, allowed, convert)


def _integers(default: Sequence[int] | None, meaning: str):
    def convert(value):
        if value is None:
            return None
        numbers = tuple(int(x) for x in value)
        if isinstance(value, str) or any(
            n != x or n < 1 for n, x in zip(numbers, value, strict=True)
        ):
            raise ValueError
        return numbers

    return Field(default, meaning, "None or a list of whole numbers above 0", convert)


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
    "eval_batch_size": _integer(
        500, "Images per evaluation step, over all devices.", 1
    ),
    "num_devices": _integer(0, "Devices of the mesh; 0: all there are."),
    "shard_params": _switch(
        False, "Split parameters and optimizer state over the devices (FSDP)."
    ),
    "steps_per_dispatch": _integer(
        0, "Steps handed to the device at once; 0: 1 on CPU, many elsewhere."
    ),
    "tensorboard": _switch(False, "Also write TensorBoard files (needs TensorFlow)."),
    "parameter_overview": _switch(False, "Print every parameter at start-up."),
    # ---- data
    "data.source": _text("tfds", "tfds, cifar_files, folder or digits."),
    "data.name": _text(
        "cifar10", "Of tfds; for cifar_files: cifar10, cifar100 or cifar100_coarse."
    ),
    "data.dir": _text(
        "",
        "Folder (or archive, for cifar_files) to read; '': the source's usual place.",
    ),
    "data.archive": _text(
        "", "tfds: official archive or folder to prepare CIFAR from, offline."
    ),
    "data.download": _switch(True, "May the source fetch what is missing?"),
    "data.placement": _choice(
        "auto",
        "Where training images wait: on the device, or on the host, which feeds them "
        "in the background; auto: on the device if they take at most half of it.",
        "auto",
        "device",
        "host",
    ),
    "data.validation": Field(
        5000,
        "Train images held out to select on, by class; 'test': select on the "
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
        None,
        "Side in pixels that folder and tfds images are resized to.",
        1,
        optional=True,
    ),
    "data.mean": _numbers(None, "Channel means, 0 to 1; None: the dataset's."),
    "data.std": _numbers(None, "Channel deviations, 0 to 1; None: the dataset's.", 0.0),
    # ---- augmentation, on the device, training only
    "augment.crop": _choice(
        "pad",
        "Random crop after padding, random resized crop, or none.",
        "pad",
        "resized",
        "none",
    ),
    "augment.crop_padding_pixels": _integer(4, "Padding of the 'pad' crop, each side."),
    "augment.crop_padding_mode": _choice(
        "zero", "What is padded with.", "zero", "reflect", "edge"
    ),
    "augment.crop_min_area": _number(
        0.8, "Smallest share of the image a 'resized' crop keeps.", 0.01, 1.0
    ),
    "augment.flip": _choice(
        "random",
        "Horizontal flip: by chance, every other epoch, or never.",
        "random",
        "alternating",
        "none",
    ),
    "augment.policy": _choice(
        "none",
        "Further image operations.",
        "none",
        "randaugment",
        "trivialaugment",
        "autoaugment",
    ),
    "augment.randaugment_num_ops": _integer(2, "Operations per image.", 1),
    "augment.randaugment_magnitude": _integer(9, "Bin of 31, 0 (none) to 30."),
    "augment.erase_prob": _share(0.0, "Chance of erasing a rectangle."),
    "augment.erase_fill": Field(
        0.0,
        "What the rectangle holds after normalisation: a number, or noise.",
        "a number or 'noise'",
        lambda v: v if v == "noise" else _number(0.0, "", -math.inf).convert(v),
    ),
    "augment.erase_area": _range(
        (0.02, 0.33), "Smallest and largest share of the image erased.", 1.0
    ),
    "augment.erase_ratio": _range(
        (0.3, 3.3), "Smallest and largest height over width of the rectangle."
    ),
    "augment.mixup_alpha": _number(0.0, "MixUp's Beta(alpha, alpha); 0: off."),
    "augment.cutmix_alpha": _number(0.0, "CutMix's Beta(alpha, alpha); 0: off."),
    "augment.mix_prob": _share(1.0, "Chance that a batch or image is mixed."),
    "augment.mix_switch_prob": _share(0.5, "Chance of CutMix, where both are on."),
    "augment.mix_per": _choice("batch", "One draw for each.", "batch", "image"),
    "augment.mix_until": _duration("100%", "When mixing is switched off."),
    "augment.label_smoothing": _share(
        0.0, "Share of each target spread evenly over the classes.", below_one=True
    ),
    # ---- model
    "model.name": _text("vit", "A row of vit_jax.models.MODELS."),
    "model.dtype": _choice(
        "auto",
        "Of the computation (parameters stay float32); auto: bfloat16 on GPU and TPU.",
        "auto",
        "bfloat16",
        "float32",
    ),
    "model.patch_size": _integer(None, f"Pixels. {_MODEL}", 1, optional=True),
    "model.width": _integer(
        None, f"Of the tokens; ResNet: first stage. {_MODEL}", 1, optional=True
    ),
    "model.depth": _integer(None, f"Blocks. {_MODEL}", 1, optional=True),
    "model.num_heads": _integer(None, f"Attention heads. {_MODEL}", 1, optional=True),
    "model.mlp_ratio": _number(
        None, f"MLP over token width. {_MODEL}", 0.1, optional=True
    ),
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
    "model.dropout": _share(
        None,
        f"After attention's projection and both MLP layers. {_MODEL}",
        below_one=True,
        optional=True,
    ),
    "model.embedding_dropout": _share(
        None, f"After positions are added. {_MODEL}", below_one=True, optional=True
    ),
    "model.attention_dropout": _share(
        None, f"On attention weights. {_MODEL}", below_one=True, optional=True
    ),
    "model.mlp_output_dropout": _share(
        None,
        f"Once more on each MLP sublayer's output. {_MODEL}",
        below_one=True,
        optional=True,
    ),
    "model.drop_path": _share(
        None,
        f"Stochastic depth of the last block, linear from 0. {_MODEL}",
        below_one=True,
        optional=True,
    ),
    "model.layer_scale": _number(
        None, f"Initial scale of residual branches; 0: none. {_MODEL}", optional=True
    ),
    "model.qk_norm": _switch(None, f"LayerNorm on queries and keys. {_MODEL}", True),
    "model.num_registers": _integer(None, f"Extra tokens. {_MODEL}", optional=True),
    "model.stem": _choice(
        None,
        f"Patch projection, convolutions, or shifted patches. {_MODEL}",
        "patch",
        "conv",
        "shifted_patch",
        None,
    ),
    "model.stem_channels": _integers(
        None, f"Of the conv stem's layers before the last, which has width. {_MODEL}"
    ),
    "model.stem_downsampling": _choice(
        None,
        f"How the conv stem shrinks its maps. {_MODEL}",
        "max_pool",
        "stride",
        None,
    ),
    "model.local_attention": _switch(
        None, f"Learned temperature and masked diagonal (LSA). {_MODEL}", True
    ),
    "model.attention_init": _choice(
        None, f"Of attention weights. {_MODEL}", "trunc_normal", "mimetic", None
    ),
    "model.activation": _choice(None, f"Of the MLP. {_MODEL}", "gelu", "relu", None),
    "model.norm_eps": _number(
        None, f"Added to LayerNorm's variances. {_MODEL}", optional=True
    ),
    # ---- optimizer
    "optim.name": _choice("adamw", "", "adamw", "adam", "sgd", "muon"),
    "optim.learning_rate": _number(1e-3, "The schedule's peak."),
    "optim.b1": _share(0.9, "Adam's first moment.", below_one=True),
    "optim.b2": _share(0.999, "Adam's second moment.", below_one=True),
    "optim.eps": _number(1e-8, "Adam's denominator."),
    "optim.momentum": _share(0.9, "SGD's and Muon's.", below_one=True),
    "optim.nesterov": _switch(False, "SGD's and Muon's form of momentum."),
    "optim.weight_decay": _number(
        0.05, "adamw, muon: decoupled; sgd: added to the gradient; adam: must be 0."
    ),
    "optim.decay_all": _switch(
        False, "Decay biases, norms, class token and positions too."
    ),
    "optim.muon_learning_rate": _number(0.02, "Muon's peak, for the blocks' matrices."),
    "optim.clip_norm": _number(0.0, "Largest global norm of the gradient; 0: off."),
    "optim.accumulate_steps": _integer(1, "Slices each batch is computed in.", 1),
    "optim.ema_decay": _share(
        0.0, "Of the parameters' moving average, per step; 0: off.", below_one=True
    ),
    # ---- schedule
    "schedule.name": _choice(
        "warmup_cosine", "", "warmup_cosine", "linear", "constant", "plateau"
    ),
    "schedule.warmup": _duration("5 epochs", "Linear rise from 0 to the peak."),
    "schedule.floor": _share(0.0, "Final rate over peak, of cosine and linear."),
    "schedule.plateau_factor": _share(0.5, "Multiplies the rate on a plateau."),
    "schedule.plateau_patience": _integer(
        3, "Evaluations without a lower val loss.", 1
    ),
    "schedule.plateau_min_delta": _number(1e-4, "Relative fall that counts as lower."),
    # ---- early stopping
    "early_stopping.patience": _integer(
        0, "Evaluations without a better val accuracy; 0: off."
    ),
    "early_stopping.target": _share(
        None, "Val accuracy at which to stop; None: off.", optional=True
    ),
    "early_stopping.after": _duration("0 steps", "Never stop before this."),
}
