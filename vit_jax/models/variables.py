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


def variable_shapes(
    model: nn.Module, image_shape: tuple[int, int, int]
) -> dict[str, Any]:
    """Shapes and dtypes of the result of `init_variables`; nothing is computed."""
    return dict(_trace(model, image_shape)[0])


def output_shapes(model: nn.Module, image_shape: tuple[int, int, int]) -> Any:
    """Shapes and dtypes of what each layer gives for one image; nothing is computed."""
    return _trace(model, image_shape)[1]


@functools.cache
def _trace(model: nn.Module, image_shape: tuple[int, int, int]) -> tuple[Any, Any]:
    """(variables, layers' outputs): the model is traced once for both.

    Which variables there are must not depend on whether layers' outputs are kept.
    """
    image = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    init = functools.partial(model.init, mutable=True, capture_intermediates=True)
    shapes = jax.eval_shape(init, jax.random.key(0), image)
    outputs = shapes.pop("intermediates")
    return shapes, outputs


def count_params(params: Any) -> int:
    """The number of scalars in a tree of arrays."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
