"""Resized positions and kernels agree with other libraries and with the paper."""

import jax
import numpy as np
import pytest
import scipy.ndimage

from vit_jax.pretrained.fit import RULES, resize_grid, resize_kernel

GRID = np.random.default_rng(0).standard_normal((14, 14, 8)).astype(np.float32)


@pytest.mark.parametrize("size", [(4, 4), (7, 20)])
@pytest.mark.parametrize(
    "rule, method, antialias",
    [("cubic_antialias", "cubic", True), ("bilinear", "linear", False)],
)
def test_positions_are_resized_as_jax_does(rule, method, antialias, size):
    expected = jax.image.resize(GRID, (*size, 8), method, antialias=antialias)
    ours = resize_grid(GRID, size, rule)
    np.testing.assert_allclose(ours, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [(4, 4), (7, 20)])
def test_zoom_is_that_of_vision_transformer(size):
    factors = (size[0] / 14, size[1] / 14, 1)
    expected = scipy.ndimage.zoom(GRID, factors, order=1)
    np.testing.assert_allclose(resize_grid(GRID, size, "zoom"), expected, atol=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_keeps_a_constant_and_the_size(rule):
    for new in (1, 4, 8, 20, 26):
        resized = resize_grid(np.ones((14, 14, 2), np.float32), (new, new + 1), rule)
        assert resized.shape == (new, new + 1, 2) and resized.dtype == np.float32
        np.testing.assert_allclose(resized, 1, atol=1e-5)
    assert resize_grid(GRID, (14, 14), rule) is GRID


def test_a_larger_kernel_gives_the_same_tokens_on_resized_patches():
    rng = np.random.default_rng(0)
    patch = rng.standard_normal((4, 4, 3))
    kernel = rng.standard_normal((4, 4, 3, 5))
    larger = jax.image.resize(patch, (6, 6, 3), "cubic")
    np.testing.assert_allclose(
        np.einsum("rci,rcio->o", larger, resize_kernel(kernel, 6)),
        np.einsum("rci,rcio->o", patch, kernel),
        atol=1e-5,
    )
