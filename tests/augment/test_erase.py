"""Random erasing."""

import functools

import jax
import numpy as np
import pytest
from scipy import stats

from vit_jax.augment import erase


def erased(prob, fill, count=4000, size=48, **ranges):
    """(erased images, masks of the erased pixels) of an image of sevens."""
    image = np.full((size, size, 2), 7, np.float32)
    keys = jax.random.split(jax.random.key(0), count)
    operation = functools.partial(erase.random_erase, prob=prob, fill=fill, **ranges)
    images = np.asarray(jax.jit(jax.vmap(operation, (0, None)))(keys, image))
    return images, (images != 7).any(-1)


def sides(masks):
    return masks.any(2).sum(1), masks.any(1).sum(1)


@pytest.fixture(scope="module")
def zeros():
    return erased(prob=1.0, fill=0.0)


@pytest.mark.slow
def test_what_is_erased_is_one_rectangle_of_zeros(zeros):
    images, masks = zeros
    height, width = sides(masks)
    np.testing.assert_array_equal(masks.sum((1, 2)), height * width)
    assert (images[masks] == 0).all()


def test_area_and_ratio_have_their_ranges_and_distributions(zeros):
    _, masks = zeros
    height, width = sides(masks)
    area, ratio = height * width / 48**2, height / width
    # Whole pixels widen the ranges a little.
    assert 0.015 < area.min() < 0.03
    assert 0.31 < area.max() < 0.345
    assert 0.25 < ratio.min() < 0.34
    assert 2.9 < ratio.max() < 3.7
    assert stats.kstest((area - 0.02) / 0.31, "uniform").statistic < 0.03
    span = np.log(3.3) - np.log(0.3)
    log_ratio = (np.log(ratio) - np.log(0.3)) / span
    assert stats.kstest(log_ratio, "uniform").statistic < 0.03


def test_place_is_uniform_where_the_rectangle_fits(zeros):
    _, masks = zeros
    height, width = sides(masks)
    for along, length in ((2, height), (1, width)):
        start = masks.any(along).argmax(1)
        # Offsets are whole numbers from 0 to `free`; adding random fractions makes them
        # continuous.
        noise = np.random.default_rng(0).uniform(size=len(start))
        place = (start + noise) / (48 - length + 1)
        assert stats.kstest(place, "uniform").pvalue > 1e-3


@pytest.mark.slow
def test_probability_and_never_as_high_or_wide_as_the_image():
    _, masks = erased(prob=0.25, fill=0.0, size=6)
    count = int(masks.any((1, 2)).sum())
    assert stats.binomtest(count, 4000, 0.25).pvalue > 1e-3
    height, width = sides(masks)
    assert max(height.max(), width.max()) < 6


@pytest.mark.slow
def test_noise_is_standard_normal_for_each_value():
    images, masks = erased(prob=1.0, fill="noise", count=400)
    assert stats.kstest(images[masks][:, 0], "norm").statistic < 0.01
    assert abs(np.corrcoef(images[masks].T)[0, 1]) < 0.01


@pytest.mark.slow
def test_fill_area_and_ratio_are_free_to_choose():
    images, masks = erased(
        prob=1.0, fill=-2.5, area=(0.25, 0.25), ratio=(1.0, 1.0), count=50
    )
    assert (images[masks] == -2.5).all()
    height, width = sides(masks)
    assert set(height) == set(width) == {24}
