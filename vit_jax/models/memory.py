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
) -> int:
    """Size of the outputs of all layers for one image [height, width, channels]."""
    return num_bytes(_outputs(model, variables, input_shape))


def largest_activation_bytes(
    model: nn.Module, variables: Any, input_shape: tuple[int, int, int]
) -> int:
    """Size of the largest output of a layer, for one image [height, width, channels].

    Without a gradient no layer's output is kept longer than the next one needs it.
    """
    outputs = jax.tree.leaves(_outputs(model, variables, input_shape))
    return max(map(num_bytes, outputs))


def _outputs(
    model: nn.Module, variables: Any, input_shape: tuple[int, int, int]
) -> Any:
    """Shapes of the outputs of all layers for one image."""
    apply = functools.partial(
        model.apply,
        train=False,
        mutable=["intermediates"],
        capture_intermediates=True,
    )
    image = jax.ShapeDtypeStruct((1, *input_shape), jnp.float32)
    return jax.eval_shape(apply, variables, image)[1]


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
