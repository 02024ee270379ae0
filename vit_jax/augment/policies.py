"""RandAugment, TrivialAugmentWide and AutoAugment, as torchvision applies them.

Each choice of a policy, an operation with a magnitude and a sign, is a row of a table
that the host makes once; the device draws row numbers. Images are uint8, 0..255,
[height, width, channels], with 1 or 3 channels. Geometric operations take the nearest
pixel and fill with black.
"""

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Key, UInt8

from vit_jax.augment.operations import apply_rows, make_table

# Operations whose magnitude has no sign; that of all others has a sign or is 0.
_UNSIGNED = ("posterize", "solarize")

# Pairs of (operation, probability, bin of 10), found by Cubuk et al. 2019.
AUTOAUGMENT_CIFAR10 = (
    (("invert", 0.1, 0), ("contrast", 0.2, 6)),
    (("rotate", 0.7, 2), ("translate_x", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
    (("shear_y", 0.5, 8), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.5, 0), ("equalize", 0.9, 0)),
    (("shear_y", 0.2, 7), ("posterize", 0.3, 7)),
    (("color", 0.4, 3), ("brightness", 0.6, 7)),
    (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, 0), ("equalize", 0.5, 0)),
    (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("color", 0.7, 7), ("translate_x", 0.5, 8)),
    (("equalize", 0.3, 0), ("autocontrast", 0.4, 0)),
    (("translate_y", 0.4, 3), ("sharpness", 0.2, 6)),
    (("brightness", 0.9, 6), ("color", 0.2, 8)),
    (("solarize", 0.5, 2), ("invert", 0.0, 0)),
    (("equalize", 0.2, 0), ("autocontrast", 0.6, 0)),
    (("equalize", 0.2, 0), ("equalize", 0.6, 0)),
    (("color", 0.9, 9), ("equalize", 0.6, 0)),
    (("autocontrast", 0.8, 0), ("solarize", 0.2, 8)),
    (("brightness", 0.1, 3), ("color", 0.7, 0)),
    (("solarize", 0.4, 5), ("autocontrast", 0.9, 0)),
    (("translate_y", 0.9, 9), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.9, 0), ("solarize", 0.8, 3)),
    (("equalize", 0.8, 0), ("invert", 0.1, 0)),
    (("translate_y", 0.7, 9), ("autocontrast", 0.9, 0)),
)


def _linspace(start: float, stop: float, num: int) -> Float32[np.ndarray, " num"]:
    """torch.linspace to the last bit: a float32 step, counted from the nearer end."""
    step = np.float64((np.float32(stop) - np.float32(start)) / np.float32(num - 1))
    i = np.arange(num)
    up, down = np.float32(start) + step * i, np.float32(stop) - step * (num - 1 - i)
    return np.where(i < num // 2, up, down).astype(np.float32)


def magnitudes(
    num_bins: int,
    *,
    shear: float,
    translate_x: float,
    translate_y: float,
    rotate: float,
    enhance: float,
    posterize: int,
) -> dict[str, Float32[np.ndarray, " {num_bins}"]]:
    """The magnitude of each operation in each bin.

    Bins rise evenly from no effect to the largest magnitude, which the arguments give
    in the units of `operations.make_operation`; `posterize` is the number of bits
    dropped. An operation without a magnitude has 0 in every bin.
    """
    none = np.zeros(num_bins, np.float32)
    dropped_bits = np.round(np.arange(num_bins) / ((num_bins - 1) / posterize))
    return {
        "identity": none,
        "shear_x": _linspace(0, shear, num_bins),
        "shear_y": _linspace(0, shear, num_bins),
        "translate_x": _linspace(0, translate_x, num_bins),
        "translate_y": _linspace(0, translate_y, num_bins),
        "rotate": _linspace(0, rotate, num_bins),
        **dict.fromkeys(
            ("brightness", "color", "contrast", "sharpness"),
            _linspace(0, enhance, num_bins),
        ),
        "posterize": (8 - dropped_bits).astype(np.float32),
        "solarize": _linspace(255, 0, num_bins),
        "autocontrast": none,
        "equalize": none,
    }


def _standard_magnitudes(num_bins: int, height: int, width: int):
    """`magnitudes` of RandAugment and AutoAugment: translation is 150/331 of a side."""
    return magnitudes(
        num_bins,
        shear=0.3,
        translate_x=150 / 331 * width,
        translate_y=150 / 331 * height,
        rotate=30,
        enhance=0.9,
        posterize=4,
    )


def _with_signs(choices: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Each choice with both signs, so that one draw decides the sign as well."""
    return [
        (name, float(magnitude) * (1 if name in _UNSIGNED else sign))
        for name, magnitude in choices
        for sign in (1, -1)
    ]


def randaugment(
    key: Key[Array, ""],
    image: UInt8[Array, "h w c"],
    *,
    num_ops: int,
    magnitude: int,
) -> UInt8[Array, "h w c"]:
    """`num_ops` of 14 operations, drawn with replacement (Cubuk et al. 2020).

    They are applied one after another, with signs of their own. `magnitude` is the bin
    of 31, 0..30, of all operations.
    """
    height, width, _ = image.shape
    space = _standard_magnitudes(31, height, width)
    choices = _with_signs((name, bins[magnitude]) for name, bins in space.items())
    table = make_table(choices, height=height, width=width)
    rows = jax.random.randint(key, (num_ops,), 0, len(table.kind))
    return apply_rows(image, table=table, rows=rows)


def trivialaugment(
    key: Key[Array, ""], image: UInt8[Array, "h w c"]
) -> UInt8[Array, "h w c"]:
    """One of 14 operations at one of 31 magnitudes (TrivialAugmentWide, Müller 2021).

    Translations reach 32 pixels whatever the size of the image, 0..255.
    """
    height, width, _ = image.shape
    space = magnitudes(
        31,
        shear=0.99,
        translate_x=32,
        translate_y=32,
        rotate=135,
        enhance=0.99,
        posterize=6,
    )
    choices = _with_signs((name, m) for name, bins in space.items() for m in bins)
    table = make_table(choices, height=height, width=width)
    rows = jax.random.randint(key, (1,), 0, len(table.kind))
    return apply_rows(image, table=table, rows=rows)


def autoaugment(
    key: Key[Array, ""], image: UInt8[Array, "h w c"]
) -> UInt8[Array, "h w c"]:
    """One of 25 pairs of operations found for CIFAR-10 (Cubuk et al. 2019).

    Each operation of the pair has its own probability; image 0..255.
    """
    height, width, _ = image.shape
    space = _standard_magnitudes(10, height, width) | {"invert": np.zeros(10)}
    steps = [step for pair in AUTOAUGMENT_CIFAR10 for step in pair]
    choices = _with_signs((name, space[name][number]) for name, _, number in steps)
    table = make_table([*choices, ("identity", 0.0)], height=height, width=width)
    probabilities = jnp.array([p for _, p, _ in steps], jnp.float32)

    pair_key, sign_key, use_key = jax.random.split(key, 3)
    step = 2 * jax.random.randint(pair_key, (), 0, len(steps) // 2) + jnp.arange(2)
    row = 2 * step + jax.random.bernoulli(sign_key, shape=(2,))
    used = jax.random.uniform(use_key, (2,)) < probabilities[step]
    rows = jnp.where(used, row, len(table.kind) - 1)
    return apply_rows(image, table=table, rows=rows)
