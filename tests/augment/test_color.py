"""Operations on values against those of Pillow that torchvision calls, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from tests.augment.pillow import check_same, from_pillow, linspace, to_pillow
from vit_jax.augment import color


def enhance(kind):
    # Pillow's blend takes a C float.
    return lambda image, factor: kind(image).enhance(float(factor))


FACTORS = 1 + linspace(-0.99, 0.99, 45)
# name: ours (image, amount), Pillow's (image, value), {value: amount} or values.
VALUE_OPERATIONS = {
    "brightness": (
        lambda image, x: color.brightness(image, factor=x),
        enhance(ImageEnhance.Brightness),
        FACTORS,
    ),
    "color": (
        lambda image, x: color.color(image, factor=x),
        enhance(ImageEnhance.Color),
        FACTORS,
    ),
    "contrast": (
        lambda image, x: color.contrast(image, factor=x),
        enhance(ImageEnhance.Contrast),
        FACTORS,
    ),
    "sharpness": (
        lambda image, x: color.sharpness(image, factor=x),
        enhance(ImageEnhance.Sharpness),
        FACTORS,
    ),
    "posterize": (
        lambda image, x: color.posterize(image, bits=x),
        ImageOps.posterize,
        range(1, 9),
    ),
    "solarize": (
        lambda image, x: color.solarize(image, threshold=x),
        ImageOps.solarize,
        [*linspace(255, 0, 31), 170, 256],
    ),
    "autocontrast": (
        lambda image, x: color.autocontrast(image),
        lambda image, x: ImageOps.autocontrast(image),
        [0],
    ),
    "equalize": (
        lambda image, x: color.equalize(image),
        lambda image, x: ImageOps.equalize(image),
        [0],
    ),
    "invert": (
        lambda image, x: color.invert(image),
        lambda image, x: ImageOps.invert(image),
        [0],
    ),
}


@pytest.mark.parametrize("name", VALUE_OPERATIONS)
def test_value_operation_is_pillows(images, name):
    operation, reference, values = VALUE_OPERATIONS[name]
    expected = np.stack(
        [[from_pillow(reference(to_pillow(im), x)) for im in images] for x in values]
    )
    amounts = [jnp.asarray(x, jnp.int32 if name == "posterize" else jnp.float32)
               for x in values]  # fmt: skip
    check_same(operation, images, amounts, expected)


@pytest.mark.slow
def test_autocontrast_of_every_range_of_values():
    """The images have all 32,640 pairs of darkest and brightest value."""
    low, high = np.triu_indices(256, 1)
    rows = np.clip(np.arange(256)[None], low[:, None], high[:, None]).astype(np.uint8)
    images = rows.reshape(-1, 3, 256).transpose(0, 2, 1)[:, None]
    expected = np.stack(
        [np.asarray(ImageOps.autocontrast(Image.fromarray(image))) for image in images]
    )
    found = jax.jit(jax.vmap(color.autocontrast))(images)
    assert (np.asarray(found) != expected).sum() == 0


def test_blend_of_every_pair_of_values():
    """The blend is compiled: a fused multiply-add would change 1 pair in 1,000."""
    first, second = np.indices((256, 256), np.uint8)
    blend = jax.jit(lambda a, b, x: color.blend(a.astype(int), b, factor=x))
    for factor in FACTORS:
        found = blend(first[..., None], second[..., None], factor)
        expected = Image.blend(*map(Image.fromarray, (first, second)), float(factor))
        np.testing.assert_array_equal(found[..., 0], np.asarray(expected))
