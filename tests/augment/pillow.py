"""Comparisons with the operations of Pillow."""

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageEnhance, ImageOps


def linspace(start, stop, num):
    return np.linspace(start, stop, num, dtype=np.float32)


def check_same(operation, images, amounts, name, magnitudes):
    """operation(image, amount) is Pillow's with each magnitude, plain = jit = vmap."""
    expected = []
    for magnitude in magnitudes:
        for image in images:
            image = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
            expected.append(np.asarray(with_pillow(image, name, magnitude)))
    expected = np.reshape(expected, (len(magnitudes), *images.shape))
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
        black = 0 if image.mode == "L" else (0, 0, 0)
        return image.transform(
            image.size, Image.AFFINE, matrix, Image.NEAREST, fillcolor=black
        )

    enhance = getattr(ImageEnhance, name.capitalize(), None)
    if enhance:
        # Pillow's blend takes a C float.
        return enhance(image).enhance(float(1 + magnitude))
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
