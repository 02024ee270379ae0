"""Fits registers and positions to a model's grid of patches."""

import math

import numpy as np

from vit_jax.errors import UserError
from vit_jax.pretrained.fit import resize_grid
from vit_jax.pretrained.rename import Renamed
from vit_jax.pretrained.report import Report

Grid = tuple[int, int]


def fit_tokens(
    renamed: Renamed,
    report: Report,
    *,
    shapes: dict[str, tuple[int, ...]],
    old_grid: Grid | None,
    new_grid: Grid,
    rule: str,
) -> None:
    """Changes registers and positions in `renamed` to what the model has, in place.

    Elsewhere the tokens stand as class, registers, patches, and all of them may have a
    position. Here registers stand last and have none: theirs is added to them once and
    for all. DeiT's distillation token is to the others one more register.

    Args:
      renamed: what the file has.
      report: where the changes are noted.
      shapes: of the model's parameters.
      old_grid: of the file's positions, (rows, columns); None: square.
      new_grid: of the model's.
      rule: one of `fit.RULES`.

    Raises:
      UserError: the positions fit no grid.
    """
    registers = _pop_registers(renamed)
    positions = renamed.tensors.get("positions")
    if positions is not None:
        num_class = int("class_token" in renamed.tensors)
        num_registers = 0 if registers is None else registers.shape[1]
        old_grid, num_before = _split(
            report.path, positions.shape[1], num_class, num_registers, old_grid
        )
        if registers is not None and num_before == num_class + num_registers:
            registers = registers + positions[:, num_class:num_before]
        if "patch_size" in report.settings:
            side = report.settings["patch_size"]
            report.pretraining_image = (old_grid[0] * side, old_grid[1] * side)
        if "positions" in shapes:
            of_class = np.zeros_like(positions[:, :1])
            if num_class and num_before:
                of_class = positions[:, :1]
            grid = positions[0, num_before:].reshape(*old_grid, -1)
            grid = resize_grid(grid, new_grid, rule)
            of_patches = grid.reshape(1, -1, grid.shape[-1])
            has_class = shapes["positions"][1] > math.prod(new_grid)
            renamed.tensors["positions"] = np.concatenate(
                [of_class, of_patches] if has_class else [of_patches], axis=1
            )
            if old_grid != new_grid:
                report.resized["positions"] = (
                    f"{old_grid[0]} x {old_grid[1]} to {new_grid[0]} x {new_grid[1]} "
                    f"patches ({rule})"
                )
    if registers is not None:
        _place_registers(renamed, report, registers, shapes)


def _pop_registers(renamed: Renamed) -> np.ndarray | None:
    names = ("registers", "distillation_token")
    found = [renamed.tensors.pop(name) for name in names if name in renamed.tensors]
    return np.concatenate(found, axis=1) if found else None


def _place_registers(
    renamed: Renamed,
    report: Report,
    registers: np.ndarray,
    shapes: dict[str, tuple[int, ...]],
) -> None:
    names = ("registers", "distillation_token")
    sources = [renamed.sources.pop(name) for name in names if name in renamed.sources]
    if "registers" in shapes:
        renamed.tensors["registers"] = registers
        renamed.sources["registers"] = " + ".join(sources)
        return
    for source in sources:
        report.dropped[source] = "the model has no registers"


def _split(
    path: str, num_positions: int, num_class: int, num_registers: int, grid: Grid | None
) -> tuple[Grid, int]:
    """The grid of the positions, and how many of them come before the patches'.

    196 positions are 14 x 14 patches even where there is a class token, which then has
    none; 197 are those and the class token's.
    """
    for num_before in (num_class + num_registers, num_class, 0):
        num_patches = num_positions - num_before
        side = math.isqrt(max(num_patches, 0))
        found = grid or (side, side)
        if num_patches > 0 and math.prod(found) == num_patches:
            return found, num_before
    expected = f"a grid of {grid[0]} x {grid[1]}" if grid else "a square grid"
    raise UserError(
        f"The weights file {path} has {num_positions} positions, which do not make "
        f"{expected}, with or without {num_class} class token and {num_registers} "
        "registers; give the grid (rows, columns) of its patches."
    )
