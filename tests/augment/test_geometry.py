"""Crops and flips."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from scipy import stats

from tests.augment.pillow import check_same, linspace
from vit_jax.augment import geometry
from vit_jax.augment.operations import make_operation


def noise_image(height=32, width=32, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(256, size=(height, width, 3)).astype(np.uint8)


def keys(count, seed=0):
    return jax.random.split(jax.random.key(seed), count)


def over_keys(operation, count, image):
    """The results of one image with `count` keys."""
    return np.asarray(jax.jit(jax.vmap(operation, (0, None)))(keys(count), image))


@pytest.mark.parametrize(
    ("mode", "numpy_mode"),
    [("zero", "constant"), ("reflect", "reflect"), ("edge", "edge")],
)
def test_crop_is_a_window_of_the_padded_image_at_uniform_offsets(mode, numpy_mode):
    image = noise_image(12, 16)
    crop = functools.partial(geometry.random_crop, padding_pixels=2, padding_mode=mode)
    padded = np.pad(image, ((2, 2), (2, 2), (0, 0)), mode=numpy_mode)
    windows = {
        padded[y : y + 12, x : x + 16].tobytes(): (y, x)
        for y in range(5)
        for x in range(5)
    }
    counts = dict.fromkeys(windows.values(), 0)
    for found in over_keys(crop, 2500, image):
        counts[windows[found.tobytes()]] += 1
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


@pytest.mark.parametrize("start", [(0, 0), (3, 1), (5, 20)])
@pytest.mark.parametrize("size", [(1, 1), (20, 7), (27, 12), (25, 11)])
def test_resized_crop_is_pillows_within_1(start, size):
    image = noise_image()
    (top, left), (height, width) = start, size
    found = geometry.resized_crop(
        jnp.asarray(image), start=jnp.array(start), size=jnp.array(size)
    )
    part = Image.fromarray(image[top : top + height, left : left + width])
    expected = np.asarray(part.resize((32, 32), Image.BILINEAR), int)
    assert np.abs(np.asarray(found, int) - expected).max() <= 1


def test_resized_crop_of_the_whole_changes_nothing():
    image = noise_image(9, 14)
    crop = functools.partial(geometry.random_resized_crop, min_area=1.0)
    found = jax.jit(crop)(jax.random.key(0), image)
    np.testing.assert_array_equal(found, image)


@pytest.mark.slow
def test_resized_crop_draws_areas_ratios_and_places():
    """Linear ramps show the size of a crop by their slope, and its place."""
    y, x = np.indices((64, 64))
    image = np.stack([4 * y, 4 * x, 0 * x], -1).astype(np.uint8)
    crop = functools.partial(geometry.random_resized_crop, min_area=0.3)
    found = over_keys(crop, 2000, image).astype(float)
    # From pixel 16 to 48, far from the edges, where values stop changing.
    height = (found[:, 48, 32, 0] - found[:, 16, 32, 0]) / 4 * 2
    width = (found[:, 32, 48, 1] - found[:, 32, 16, 1]) / 4 * 2
    area, ratio = height * width / 64**2, width / height
    assert 0.28 < area.min() < 0.33
    assert 0.95 < area.max() < 1.03
    assert 0.72 < ratio.min() < 0.78
    assert 1.28 < ratio.max() < 1.38
    # Below 3/4 every ratio fits, so that there the area is uniform as drawn.
    small = (area[area < 0.75] - 0.3) / 0.45
    assert stats.kstest(small, "uniform").statistic < 0.06
    # The middle keeps a distance of half the crop from the edges of the image.
    free = height < 60
    middle = (found[free, 31, 32, 0] + found[free, 32, 32, 0]) / 8 + 0.5
    place = (middle - height[free] / 2) / (64 - height[free])
    assert abs(place.mean() - 0.5) < 0.02
    assert place.min() > -0.2
    assert place.max() < 1.2


def test_random_flip_mirrors_half_of_the_time():
    image = noise_image()
    found = over_keys(geometry.random_flip, 1000, image)
    mirrored = (found == image[:, ::-1]).all((1, 2, 3))
    assert (mirrored | (found == image).all((1, 2, 3))).all()
    assert stats.binomtest(int(mirrored.sum()), 1000).pvalue > 1e-3


def test_alternating_flip_alternates_from_a_fair_coin():
    image = noise_image(4, 4)

    @jax.jit
    def views(epoch, seed):
        flip = functools.partial(
            geometry.alternating_flip, epoch=epoch, run_key=jax.random.key(seed)
        )
        flipped = jax.vmap(lambda i: flip(jnp.asarray(image), index=i))(
            jnp.arange(1000)
        )
        return flipped == image[:, ::-1][None]

    mirrored = np.stack([views(epoch, 0).all((1, 2, 3)) for epoch in range(4)])
    assert (mirrored[1:] != mirrored[:-1]).all()
    assert stats.binomtest(int(mirrored[0].sum()), 1000).pvalue > 1e-3
    other_seed = views(0, 1).all((1, 2, 3))
    assert 400 < (other_seed != mirrored[0]).sum() < 600


SHEARS = linspace(-0.99, 0.99, 61)
WARPS = {
    **dict.fromkeys(("shear_x", "shear_y"), SHEARS),
    **dict.fromkeys(("translate_x", "translate_y"), range(-33, 34)),
    "rotate": [*linspace(-135, 135, 61), -90, 90, 180],
}


@pytest.mark.parametrize("name", WARPS)
def test_geometric_operation_is_pillows(images, name):
    values = [float(x) for x in WARPS[name]]
    size = dict.fromkeys(("height", "width"), images.shape[1])
    matrices = [jnp.asarray(make_operation(name, x, **size).matrix) for x in values]
    operation = lambda image, matrix: geometry.warp(image, matrix=matrix)  # noqa: E731
    check_same(operation, images, matrices, name, values)


def test_rotation_of_an_image_that_is_not_square():
    image = np.random.default_rng(0).integers(256, size=(20, 31, 3)).astype(np.uint8)
    matrix = jnp.asarray(make_operation("rotate", 40.0, height=20, width=31).matrix)
    expected = Image.fromarray(image).rotate(40.0, Image.NEAREST)
    np.testing.assert_array_equal(
        geometry.warp(jnp.asarray(image), matrix=matrix), np.asarray(expected)
    )
