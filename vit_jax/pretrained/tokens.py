"""Fits tokens and positions to those of a model and to its grid of patches."""

import math

import numpy as np

from vit_jax.errors import UserError
from vit_jax.pretrained.fit import resize_grid
from vit_jax.pretrained.rename import Renamed
from vit_jax.pretrained.report import Report

Grid = tuple[int, int]

# The tokens that stand before the patches, in order, each with a position of its own.
_PREFIX = ("class_token", "distillation_token")


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
    names = [
        name for name in ("distillation_token", "registers") if name in renamed.tensors
    ]
    if "distillation_token" in names and "distillation_token" in shapes:
        names.remove("distillation_token")
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
