"""The variables of a model: initial values, shapes, and how many there are."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import PRNGKeyArray

from vit_jax.models.mae import MaskedAutoencoder


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


def example_inputs(
    model: nn.Module, image_shape: tuple[int, int, int]
) -> list[jax.ShapeDtypeStruct]:
    """What the model is called with for one image: an autoencoder sees a part of it."""
    inputs = [jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)]
    if isinstance(model, MaskedAutoencoder):
        num_patches = math.prod(image_shape[:2]) // model.patch_size**2
        shape = (1, model.num_visible(num_patches))
        inputs.append(jax.ShapeDtypeStruct(shape, jnp.int32))
    return inputs


@functools.cache
def _trace(model: nn.Module, image_shape: tuple[int, int, int]) -> tuple[Any, Any]:
    """(variables, layers' outputs): the model is traced once for both.

    Which variables there are must not depend on whether layers' outputs are kept.
    """
    init = functools.partial(model.init, mutable=True, capture_intermediates=True)
    inputs = example_inputs(model, image_shape)
    shapes = jax.eval_shape(init, jax.random.key(0), *inputs)
    outputs = shapes.pop("intermediates")
    return shapes, outputs


def count_params(params: Any) -> int:
    """The number of scalars in a tree of arrays."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
