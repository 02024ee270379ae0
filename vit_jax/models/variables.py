"""The variables of a model: initial values, shapes, and how many there are."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import PRNGKeyArray


@functools.partial(jax.jit, static_argnames=("model", "image_shape"))
def init_variables(
    model: nn.Module, key: PRNGKeyArray, image_shape: tuple[int, int, int]
) -> dict[str, Any]:
    """Initial float32 variables: "params" and, with BatchNorm, "batch_stats"."""
    return model.init(key, jnp.zeros((1, *image_shape)))


@functools.cache
def variable_shapes(
    model: nn.Module, image_shape: tuple[int, int, int]
) -> dict[str, Any]:
    """Shapes and dtypes of the result of `init_variables`; nothing is computed."""
    image = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    return jax.eval_shape(model.init, jax.random.key(0), image)


def count_params(params: Any) -> int:
    """The number of scalars in a tree of arrays."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
