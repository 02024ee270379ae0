"""Pixel statistics against NumPy."""

import numpy as np
import pytest

from vit_jax.metrics import pixels


@pytest.mark.parametrize("channels", [1, 3])
def test_agrees_with_numpy(channels):
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(7, 5, 6, channels), dtype=np.uint8)
    images[0] = 255
    result = pixels.pixel_statistics(images)
    np.testing.assert_allclose(result.mean, images.mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(result.std, images.std(axis=(0, 1, 2)))
    assert result.counts.shape == (channels, 256)
    assert result.counts[0, 255] == (images[..., 0] == 255).sum()
    assert (result.counts.sum(axis=1) == 7 * 5 * 6).all()
