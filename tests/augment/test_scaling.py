"""Normalisation, the way back to pixels, and sizes."""

import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.augment import input_shape, normalize, resize, to_pixels

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)


def test_normalize():
    images = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3) * 11
    expected = (images / 255 - MEAN) / STD
    found = normalize(jnp.asarray(images), MEAN, STD)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    one = normalize(jnp.asarray(images[0, 0, 0]), MEAN, STD)
    np.testing.assert_allclose(one, expected[0, 0, 0], atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_come_back(channels):
    pixels = np.arange(256, dtype=np.uint8)[:, None, None].repeat(channels, axis=2)
    mean, std = MEAN[:channels], STD[:channels]
    found = to_pixels(normalize(jnp.asarray(pixels), mean, std), mean, std)
    assert found.dtype == jnp.uint8
    np.testing.assert_array_equal(found, pixels)
    beyond = jnp.full((2, 2, channels), 100.0)
    assert (to_pixels(beyond, mean, std) == 255).all()
    assert (to_pixels(-beyond, mean, std) == 0).all()


def test_sizes():
    images = jnp.ones((2, 4, 6, 3))
    assert resize(images, None) is images and input_shape((4, 6, 3), None) == (4, 6, 3)
    assert resize(images, 8).shape == (2, *input_shape((4, 6, 3), 8)) == (2, 8, 8, 3)
    np.testing.assert_allclose(resize(images[0], 8), np.ones((8, 8, 3)), atol=1e-6)
