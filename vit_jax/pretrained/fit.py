"""Fits tokens, positions and patch kernels to a model and to its grid of patches."""

import math

import jax
import numpy as np
import scipy.ndimage
from jaxtyping import Float

from vit_jax.errors import UserError
from vit_jax.pretrained.match import Report
from vit_jax.pretrained.rename import Renamed

Grid = tuple[int, int]

# What `jax.image.scale_and_translate` takes, the method and whether with antialias, and
# what is added to the new size before it divides.
RULES = {
    # What timm and Pillow do. Places outside of the grid have no weight.
    "cubic_antialias": ("cubic", True, 0.0),
    # torch.nn.functional.interpolate(mode="bicubic"), which repeats the border.
    "cubic": ("cubic-pytorch", False, 0.0),
    # The same, with the 0.1 that DINO's code adds.
    "dino": ("cubic-pytorch", False, 0.1),
    # As timm resizes Google's positions.
    "bilinear": ("linear", False, 0.0),
    # scipy.ndimage.zoom(order=1), as vision_transformer and big_vision have it: the
    # outermost places stay where they are.
    "zoom": None,
}

# The tokens that stand before the patches, in order, each with a position of its own.
_PREFIX = ("class_token", "distillation_token")


def resize_grid(
    grid: Float[np.ndarray, "rows columns width"], size: tuple[int, int], rule: str
) -> Float[np.ndarray, "new_rows new_columns width"]:
    """Positions of a grid of patches for a grid of another size, by one of `RULES`."""
    rows, columns, width = grid.shape
    if (rows, columns) == size:
        return grid
    if rule == "zoom":
        factors = (size[0] / rows, size[1] / columns, 1)
        return scipy.ndimage.zoom(grid, factors, order=1, mode="nearest")
    method, antialias, added = RULES[rule]
    scale = np.array([(size[0] + added) / rows, (size[1] + added) / columns])
    resized = jax.image.scale_and_translate(
        grid, (*size, width), (0, 1), scale, np.zeros(2), method, antialias
    )
    return np.asarray(resized)


def resize_kernel(
    kernel: Float[np.ndarray, "side side channels width"], side: int
) -> Float[np.ndarray, "new_side new_side channels width"]:
    """The kernel of a patch projection for patches of another size.

    Its products with patches that were resized by `cubic_antialias` come as close as
    possible to those of the old kernel with the patches as they were; for larger
    patches they are equal (Beyer et al., 2023, "FlexiViT: One Model for All Patch
    Sizes", equation 5).
    """
    # What the rule makes of each old place alone is its matrix, [new, old].
    places = np.eye(kernel.shape[0], dtype=np.float32)
    matrix = jax.image.resize(places, (side, len(places)), "cubic")
    inverse = np.linalg.pinv(np.asarray(matrix, np.float64).T)
    resized = np.einsum("ra,abio,cb->rcio", inverse, kernel, inverse)
    return resized.astype(np.float32)


def fit_tokens(
    renamed: Renamed,
    report: Report,
    *,
    shapes: dict[str, tuple[int, ...]],
    old_grid: Grid | None,
    new_grid: Grid,
    rule: str,
) -> None:
    """Changes tokens and positions in `renamed` to what the model has, in place.

    In files the order of the tokens is class, distillation, registers, patches, and all
    of them may have a position. In our models registers come last and have no position,
    so the file's positions of registers are added to the registers. In a model without
    a distillation token, the file's is one more register.

    Args:
      renamed, report: what the file has, and where the changes are noted.
      shapes: of the model's parameters.
      old_grid: of the file's positions, (rows, columns); None: square.
      new_grid: of the model's.
      rule: one of `fit.RULES`.

    Raises:
      UserError: the positions fit no grid.
    """
    registers, sources = _pop_registers(renamed, shapes)
    positions = renamed.tensors.get("positions")
    if positions is not None:
        prefix = [name for name in _PREFIX if name in renamed.tensors]
        num_registers = 0 if registers is None else registers.shape[1]
        old_grid, num_before = _split(
            report.path, positions.shape[1], len(prefix), num_registers, old_grid
        )
        if registers is not None and num_before == len(prefix) + num_registers:
            registers = registers + positions[:, len(prefix) : num_before]
        if "patch_size" in report.settings:
            side = report.settings["patch_size"]
            report.pretraining_image = (old_grid[0] * side, old_grid[1] * side)
        if "positions" in shapes:
            of_prefix = [
                positions[:, [prefix.index(name)]]
                if name in prefix and num_before
                else np.zeros_like(positions[:, :1])
                for name in _PREFIX
                if name in shapes
            ]
            grid = positions[0, num_before:].reshape(*old_grid, -1)
            grid = resize_grid(grid, new_grid, rule)
            of_patches = grid.reshape(1, -1, grid.shape[-1])
            renamed.tensors["positions"] = np.concatenate(
                [*of_prefix, of_patches], axis=1
            )
            if old_grid != new_grid:
                report.resized["positions"] = (
                    f"{old_grid[0]} x {old_grid[1]} to {new_grid[0]} x {new_grid[1]} "
                    f"patches ({rule})"
                )
    if registers is not None and "registers" in shapes:
        renamed.tensors["registers"] = registers
        renamed.sources["registers"] = " + ".join(sources)
    else:
        report.dropped |= dict.fromkeys(sources, "the model has no registers")


def _pop_registers(
    renamed: Renamed, shapes: dict[str, tuple[int, ...]]
) -> tuple[np.ndarray | None, list[str]]:
    """The registers, in order, and their names in the file."""
    names = [] if "distillation_token" in shapes else ["distillation_token"]
    names = [name for name in (*names, "registers") if name in renamed.tensors]
    found = [renamed.tensors.pop(name) for name in names]
    sources = [renamed.sources.pop(name) for name in names]
    return (np.concatenate(found, axis=1) if found else None), sources


def _split(
    path: str,
    num_positions: int,
    num_prefix: int,
    num_registers: int,
    grid: Grid | None,
) -> tuple[Grid, int]:
    """The grid of the positions, and how many of them come before the patches'.

    196 positions are 14 x 14 patches even where there is a class token, which then has
    none; 197 are those and the class token's.
    """
    for num_before in (num_prefix + num_registers, num_prefix, 0):
        num_patches = num_positions - num_before
        side = math.isqrt(max(num_patches, 0))
        found = grid or (side, side)
        if num_patches > 0 and math.prod(found) == num_patches:
            return found, num_before
    expected = f"a grid of {grid[0]} x {grid[1]}" if grid else "a square grid"
    raise UserError(
        f"The weights file {path} has {num_positions} positions, which do not make "
        f"{expected}, with or without those of the tokens before it ({num_prefix}) and "
        f"of registers ({num_registers}); give the grid (rows, columns) of its patches."
    )
