"""How much memory a model takes, from the shapes alone: nothing is computed."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from vit_jax.errors import UserError


def num_bytes(tree: Any) -> int:
    """Size of all arrays, or of all ShapeDtypeStructs of arrays."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def activation_bytes(
    model: nn.Module, variables: Any, input_shape: tuple[int, int, int]
) -> list[int]:
    """Sizes of the outputs of all layers for one image [height, width, channels].

    Without a gradient no layer's output is kept longer than the next one needs it.
    """
    apply = functools.partial(
        model.apply,
        train=False,
        mutable=["intermediates"],
        capture_intermediates=True,
    )
    image = jax.ShapeDtypeStruct((1, *input_shape), jnp.float32)
    outputs = jax.eval_shape(apply, variables, image)[1]
    return [num_bytes(output) for output in jax.tree.leaves(outputs)]


def require_memory(needs: dict[str, int], free: int | None) -> None:
    """Refuses what cannot fit, before anything is allocated.

    Args:
      needs: bytes of each thing, by what it is.
      free: bytes; None if unknown, and nothing is refused.

    Raises:
      UserError: names the largest of the needs and both sums.
    """
    needed = sum(needs.values())
    if free is not None and needed > free:
        largest = max(needs, key=needs.__getitem__)
        raise UserError(
            f"This takes at least {needed / 1e9:,.1f} GB of memory, of which "
            f"{needs[largest] / 1e9:,.1f} GB are for {largest}, but "
            f"{free / 1e9:,.1f} GB are free; make that smaller."
        )
