"""Muon's update: orthogonalised momentum.

Jordan, 2024, "Muon: An optimizer for hidden layers in neural networks". The
Newton-Schulz iterations are those of `optax.contrib.scale_by_muon`; what is decided
here is how many matrices they get at once, and in which dtype.
"""

import functools
import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
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
    iterations have the dtype `backend.auto_dtype()`: on most accelerators bfloat16, as
    in Jordan's own code, since they need to be orthogonal only roughly.

    Args:
      dimensions: tree -> for each leaf two tuples, the axes of its matrix; any further
        axes number several matrices.
      beta, nesterov: of the momentum, as optax has them.
    """
    # Without momentum, optax's transformation is the iterations alone.
    iterations = optax.contrib.scale_by_muon(
        beta=0.0, nesterov=False, weight_dimension_numbers=MuonDimensionNumbers(1, 2)
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
    stacks = [_stack(leaf, one) for leaf, one in zip(leaves, axes, strict=True)]
    keys = range(len(stacks))
    if backend.groups_leaves():
        keys = [stack.shape[1:] for stack in stacks]
    dtype = backend.auto_dtype()
    if dtype == "float16":  # It would lose momentum that is small before it is scaled.
        dtype = "float32"
    for group in groups_of(keys):
        joined = jnp.concatenate([stacks[i] for i in group])
        joined = joined.astype(dtype)
        joined, _ = iterations.update(joined, iterations.init(joined))
        ends = np.cumsum([len(stacks[i]) for i in group])
        parts = jnp.split(joined.astype(jnp.float32), ends[:-1])
        for index, part in zip(group, parts, strict=True):
            # The transpose of a function that only reorders is its inverse.
            restore = jax.linear_transpose(
                functools.partial(_stack, axes=axes[index]), leaves[index]
            )
            rows, columns = (_size(leaves[index], side) for side in axes[index])
            leaves[index] = restore(part)[0] * max(1, columns / rows) ** 0.5
    return tree.unflatten(leaves)


def groups_of(keys: Iterable[Hashable]) -> list[list[int]]:
    """The indices of the keys, in one list for each different key."""
    groups: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    return list(groups.values())


def _stack(leaf: Array, axes: MuonDimensionNumbers) -> Float[Array, "n rows columns"]:
    """The matrices of one leaf, transposed where rows > columns."""
    rows, columns = (_size(leaf, side) for side in axes)
    others = sorted({*range(leaf.ndim)} - {*axes[0], *axes[1]})
    matrices = leaf.transpose(*others, *axes[0], *axes[1]).reshape(-1, rows, columns)
    return matrices.mT if rows > columns else matrices


def _size(leaf: Array, axes: tuple[int, ...]) -> int:
    return math.prod(leaf.shape[axis] for axis in axes)
