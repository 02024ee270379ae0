"""Operations on values against those of Pillow that torchvision calls, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.augment.pillow import check_same, linspace
from vit_jax.augment import color

FACTORS = 1 + linspace(-0.99, 0.99, 45)
# name: the argument, its values, and the same in torchvision's terms.
ENHANCE = ("factor", FACTORS, FACTORS - 1)
THRESHOLDS = np.float32([*linspace(255, 0, 31), 170, 256])
NONE = (None, [0], [0])
VALUE_OPERATIONS = {
    **dict.fromkeys(("brightness", "color", "contrast", "sharpness"), ENHANCE),
    "posterize": ("bits", range(1, 9), range(1, 9)),
    "solarize": ("threshold", THRESHOLDS, THRESHOLDS),
    **dict.fromkeys(("autocontrast", "equalize", "invert"), NONE),
}


@pytest.mark.parametrize("name", VALUE_OPERATIONS)
def test_value_operation_is_pillows(images, name):
    argument, values, magnitudes = VALUE_OPERATIONS[name]

    def operation(image, value):
        options = {argument: value} if argument else {}
        return getattr(color, name)(image, **options)

    amounts = [jnp.asarray(value) for value in values]
    check_same(operation, images, amounts, name, magnitudes)


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


def test_the_contrast_of_the_largest_images_does_not_overflow():
    image = jnp.full((2100, 2100, 1), 250, np.uint8)
    assert (color.contrast(image, factor=0.5) == 250).all()
