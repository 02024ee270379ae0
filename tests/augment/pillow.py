"""Images to and from Pillow, and comparisons with its operations."""

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageEnhance, ImageOps


def linspace(start, stop, num):
    return np.linspace(start, stop, num, dtype=np.float32)


def from_pillow(image):
    array = np.asarray(image)
    return array if array.ndim == 3 else array[..., None]


def to_pillow(image):
    return Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)


def check_same(operation, images, amounts, expected):
    """operation(image, amount) is `expected` [amounts, images], plain = jit = vmap."""
    over_images = jax.jit(jax.vmap(operation, (0, None)))
    found = np.stack([over_images(images, amount) for amount in amounts])
    assert found.dtype == np.uint8
    assert (found != expected).sum() == 0
    last = jnp.asarray(images[-1]), amounts[-1]
    np.testing.assert_array_equal(operation(*last), expected[-1, -1])
    np.testing.assert_array_equal(jax.jit(operation)(*last), expected[-1, -1])


def with_pillow(image, name, magnitude):
    """The operation that torchvision calls by this name."""

    def affine(*matrix):
        return image.transform(
            image.size, Image.AFFINE, matrix, Image.NEAREST, fillcolor=(0, 0, 0)
        )

    enhance = getattr(ImageEnhance, name.capitalize(), None)
    if enhance:
        return enhance(image).enhance(1 + magnitude)
    return {
        "identity": image.copy,
        "shear_x": lambda: affine(1, magnitude, 0, 0, 1, 0),
        "shear_y": lambda: affine(1, 0, 0, magnitude, 1, 0),
        "translate_x": lambda: affine(1, 0, -int(magnitude), 0, 1, 0),
        "translate_y": lambda: affine(1, 0, 0, 0, 1, -int(magnitude)),
        "rotate": lambda: image.rotate(magnitude, Image.NEAREST),
        "posterize": lambda: ImageOps.posterize(image, int(magnitude)),
        "solarize": lambda: ImageOps.solarize(image, magnitude),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "invert": lambda: ImageOps.invert(image),
    }[name]()
