"""Models by name, for CIFAR's images, and their variables: shapes, random values."""

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax import models

CIFAR = (32, 32, 3)


def shapes_of(model, image_shape=CIFAR):
    images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    return jax.eval_shape(model.init, jax.random.key(0), images)


def random_variables(model, image_shape):
    """Random variables of the model's shapes, far from their initial values."""
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda leaf: jnp.float32(rng.normal(0.1, 0.4, leaf.shape)),
        shapes_of(model, image_shape),
    )


def scaled_variables(model, image_shape):
    """Random variables with which activations keep their size, also in BatchNorm."""
    rng = np.random.default_rng(0)

    def draw(path, leaf):
        name = path[-1].key
        if name == "kernel":
            fan_in = np.prod(leaf.shape[:-1])
            values = rng.normal(0, (2 / fan_in) ** 0.5, leaf.shape)
        elif name in ("var", "scale"):
            values = rng.uniform(0.3, 1.5, leaf.shape)
        else:
            values = rng.normal(0, 0.3, leaf.shape)
        return values.astype(np.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes_of(model, image_shape))


def random_images(count, image_shape, seed=1):
    rng = np.random.default_rng(seed)
    return jnp.float32(rng.normal(size=(count, *image_shape)))


def make(
    name, image_shape=CIFAR, num_classes=10, dtype="float32", mae=None, **settings
):
    return models.make_model(
        {"name": name, "dtype": "auto", **settings},
        num_classes=num_classes,
        image_shape=image_shape,
        dtype=dtype,
        config_mae=mae,
    )
