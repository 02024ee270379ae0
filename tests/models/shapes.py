"""Models by name, for CIFAR's images, and the shapes of their variables."""

import jax
import jax.numpy as jnp

from vit_jax import models

CIFAR = (32, 32, 3)


def shapes_of(model, image_shape=CIFAR):
    images = jnp.zeros((1, *image_shape))
    return jax.eval_shape(model.init, jax.random.key(0), images)


def make(name, image_shape=CIFAR, num_classes=10, dtype=jnp.float32, **settings):
    return models.make_model(
        {"name": name, "dtype": "auto", **settings},
        num_classes=num_classes,
        image_shape=image_shape,
        dtype=dtype,
    )
