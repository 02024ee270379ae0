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


def random_images(count, image_shape, seed=1):
    rng = np.random.default_rng(seed)
    return jnp.float32(rng.normal(size=(count, *image_shape)))


def make(name, image_shape=CIFAR, num_classes=10, dtype=jnp.float32, **settings):
    return models.make_model(
        {"name": name, "dtype": "auto", **settings},
        num_classes=num_classes,
        image_shape=image_shape,
        dtype=dtype,
    )
