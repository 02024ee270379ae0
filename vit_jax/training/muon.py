"""Muon's update: orthogonalised momentum.

Jordan, 2024, "Muon: An optimizer for hidden layers in neural networks". The
Newton-Schulz iterations are those of `optax.contrib.scale_by_muon`; what is decided
here is how many matrices they get at once, and in which dtype.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float
from optax.contrib import MuonDimensionNumbers

from vit_jax.models import backend


def scale_by_muon(
    dimensions: Callable[[Any], Any], *, beta: float, nesterov: bool
) -> optax.GradientTransformation:
    """Momentum, Newton-Schulz iterations, and the factor sqrt(max(1, columns / rows)).

    Where `backend.groups_leaves`, matrices of one shape, or of its transpose, are
    multiplied together: a block's small products would each wait for a launch. The
    iterations have the dtype `backend.auto_dtype()`: on accelerators 16 bits, as in
    Jordan's own code, since they need to be orthogonal only roughly.

    Args:
      dimensions: tree -> for each leaf the axes of its matrix; any further axes number
        several matrices.
      beta, nesterov: of the momentum, as optax has them.
    """
    # Without momentum, optax's transformation is the iterations alone.
    iterations = optax.contrib.scale_by_muon(
        beta=0.0,
        nesterov=False,
        weight_dimension_numbers=lambda stacks: dict.fromkeys(
            stacks, MuonDimensionNumbers(1, 2)
        ),
    )

    def update(updates, state, params=None):
        momentum = optax.tree.update_moment(updates, state.mu, beta, 1)
        count = state.count + 1
        ahead = optax.tree.bias_correction(momentum, beta, count + nesterov)
        if nesterov:
            ahead = jax.tree.map(
                lambda m, g: beta * m + (1 - beta) * g,
                ahead,
                optax.tree.bias_correction(updates, beta, count),
            )
        updates = _directions(ahead, dimensions(updates), iterations)
        return updates, state._replace(count=count, mu=momentum)

    return optax.GradientTransformation(iterations.init, update)


def _directions(
    momentum: Any, dimensions: Any, iterations: optax.GradientTransformation
) -> Any:
    """The matrices after `iterations` and the factor, in the tree of `momentum`."""
    leaves, tree = jax.tree.flatten(momentum)
    axes = jax.tree.leaves(
        dimensions, is_leaf=lambda x: isinstance(x, MuonDimensionNumbers)
    )
    layouts = [
        _Layout(leaf.shape, *one) for leaf, one in zip(leaves, axes, strict=True)
    ]
    groups: dict[str, list[int]] = {}
    for index, layout in enumerate(layouts):
        name = sorted(layout.matrix) if backend.groups_leaves() else index
        groups.setdefault(str(name), []).append(index)
    stacks = {
        name: jnp.concatenate([layouts[i].take_apart(leaves[i]) for i in group])
        for name, group in groups.items()
    }
    stacks = optax.tree.cast(stacks, backend.auto_dtype())
    stacks, _ = iterations.update(stacks, iterations.init(stacks))
    stacks = optax.tree.cast(stacks, jnp.float32)
    for name, group in groups.items():
        start = 0
        for index in group:
            end = start + layouts[index].count
            leaves[index] = layouts[index].put_together(stacks[name][start:end])
            start = end
    return tree.unflatten(leaves)


class _Layout:
    """The matrices of one leaf: `count` of shape `matrix`, rows by columns.

    They are taken apart as stacks in which rows <= columns.
    """

    def __init__(self, shape: tuple[int, ...], rows: Any, columns: Any):
        rows, columns = (
            (axes,) if isinstance(axes, int) else tuple(axes)
            for axes in (rows, columns)
        )
        others = tuple(set(range(len(shape))) - {*rows, *columns})
        self._order = (*others, *rows, *columns)
        self._ordered = tuple(shape[axis] for axis in self._order)
        self.count, *matrix = (
            math.prod(shape[axis] for axis in axes) for axes in (others, rows, columns)
        )
        self.matrix = tuple(matrix)

    def take_apart(self, leaf: Array) -> Float[Array, "n rows columns"]:
        matrices = leaf.transpose(self._order).reshape(self.count, *self.matrix)
        return matrices.mT if self._is_tall else matrices

    def put_together(self, matrices: Float[Array, "n rows columns"]) -> Array:
        matrices = matrices.mT if self._is_tall else matrices
        rows, columns = self.matrix
        matrices = matrices * max(1, columns / rows) ** 0.5
        inverse = sorted(range(len(self._order)), key=self._order.__getitem__)
        return matrices.reshape(self._ordered).transpose(inverse)

    @property
    def _is_tall(self) -> bool:
        rows, columns = self.matrix
        return rows > columns
