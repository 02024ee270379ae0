"""Operations of a policy as rows of numbers, so that each image can have another."""

from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int, Int32, UInt8

from vit_jax.augment import color, geometry


class Operation(NamedTuple):
    """One operation or, with leading axes, a table of operations.

    Attributes:
      kind: index into `_KINDS`.
      matrix: of a warp, see `geometry.affine_matrix`.
      amount: of other kinds: factor, number of bits or threshold.
    """

    kind: Int32[Array, "*n"] | Int32[np.ndarray, "*n"]
    matrix: Int32[Array, "*n 6"] | Int32[np.ndarray, "*n 6"]
    amount: Float32[Array, "*n"] | Float32[np.ndarray, "*n"]


_KINDS = {
    "warp": lambda image, op: geometry.warp(image, matrix=op.matrix),
    "brightness": lambda image, op: color.brightness(image, factor=op.amount),
    "color": lambda image, op: color.color(image, factor=op.amount),
    "contrast": lambda image, op: color.contrast(image, factor=op.amount),
    "sharpness": lambda image, op: color.sharpness(image, factor=op.amount),
    "posterize": lambda image, op: color.posterize(
        image, bits=op.amount.astype(jnp.int32)
    ),
    "solarize": lambda image, op: color.solarize(image, threshold=op.amount),
    "autocontrast": lambda image, op: color.autocontrast(image),
    "equalize": lambda image, op: color.equalize(image),
    "invert": lambda image, op: color.invert(image),
}


def make_operation(
    name: str, magnitude: float, *, height: int, width: int
) -> Operation:
    """An operation at a magnitude, in torchvision's terms, as NumPy arrays.

    Args:
      name: a key of `policies.magnitudes`, or "invert".
      magnitude: shear as a slope, to the left or up; translation in pixels (its
        fraction is dropped), rotation in degrees counter-clockwise, brightness and its
        kin as the difference of the factor from 1, posterize as bits kept, solarize as
        threshold.
      height, width: of the image, pixels.
    """
    matrices = {
        "identity": (1, 0, 0, 0, 1, 0),
        "shear_x": (1, magnitude, 0, 0, 1, 0),
        "shear_y": (1, 0, 0, magnitude, 1, 0),
        "translate_x": (1, 0, -int(magnitude), 0, 1, 0),
        "translate_y": (1, 0, 0, 0, 1, -int(magnitude)),
        "rotate": geometry.rotation(magnitude, height=height, width=width),
    }
    kind = "warp" if name in matrices else name
    is_factor = name in ("brightness", "color", "contrast", "sharpness")
    return Operation(
        kind=np.asarray(list(_KINDS).index(kind), np.int32),
        matrix=geometry.affine_matrix(*matrices.get(name, matrices["identity"])),
        amount=np.asarray(magnitude + is_factor, np.float32),
    )


def make_table(
    rows: Iterable[tuple[str, float]], *, height: int, width: int
) -> Operation:
    """A table with a row for each (name, magnitude)."""
    made = [make_operation(*row, height=height, width=width) for row in rows]
    return Operation(*map(np.stack, zip(*made, strict=True)))


def apply_rows(
    image: UInt8[Array, "h w c"], *, table: Operation, rows: Int[Array, " n"]
) -> UInt8[Array, "h w c"]:
    """Applies rows of a table to an image, 0..255, one after another.

    Under vmap every kind of operation is computed for every image, and one result is
    kept. Therefore there are few kinds (identity and all geometric operations are one
    warp) and each is cheap. Unrolling the scan takes almost four times as long, because
    XLA then fuses, and so repeats, the first operation in each kind of the second. With
    lax.map an accelerator would compute one image at a time.
    """
    kinds = list(_KINDS.values())

    def apply_row(image, operation):
        return jax.lax.switch(operation.kind, kinds, image, operation), None

    drawn = Operation(*(jnp.asarray(column)[rows] for column in table))
    return jax.lax.scan(apply_row, image, drawn)[0]
