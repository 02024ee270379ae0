"""Resized positions and kernels agree with other libraries and with the paper."""

import jax
import numpy as np
import pytest

from vit_jax.pretrained.fit import RULES, resize_grid, resize_kernel

GRID = np.random.default_rng(0).standard_normal((14, 14, 8)).astype(np.float32)


def keys(distance, a):
    """The cubic convolution kernel of Keys (1981)."""
    x = abs(distance)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x**2 + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0


def cubic_at(place):
    """Weights of four places for one in between; those outside are the border."""
    weights = np.zeros(4)
    for tap in range(-1, 3):
        weights[np.clip(tap, 0, 3)] += keys(place - tap, a=-0.75)
    return weights


def widened(place):
    """Weights of four places for one of two; there is none outside."""
    weights = np.array([keys((place - tap) / 2, a=-0.5) for tap in range(4)])
    return weights / weights.sum()


@pytest.mark.parametrize(
    ("rule", "first"),
    [
        # The middle of the first of two new places is at 0.5 of four old ones.
        ("cubic_antialias", widened(0.5)),
        ("cubic", cubic_at(0.5)),
        ("dino", cubic_at(0.5 * 4 / 2.1 - 0.5)),
        ("bilinear", [0.5, 0.5, 0, 0]),
        ("zoom", [1, 0, 0, 0]),
    ],
)
def test_each_rule_has_the_weights_of_its_definition(rule, first):
    places = np.eye(4, dtype=np.float32)[:, None]
    np.testing.assert_allclose(
        resize_grid(places, (2, 1), rule)[0, 0], first, atol=1e-6
    )
    columns = resize_grid(places.swapaxes(0, 1), (1, 2), rule)
    np.testing.assert_allclose(columns[0, 0], first, atol=1e-6)


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
