"""MixUp, CutMix and their soft targets."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.rows import slow
from vit_jax.augment import mix

OPTIONS = {"mixup_alpha": 0.0, "cutmix_alpha": 0.0, "prob": 1.0, "switch_prob": 0.5}


def mixed(count=64, active=True, per="image", seed=0, **options):
    """(images, targets) of 16 x 24 pixels; image i has the value and the class i."""
    value = jnp.arange(count, dtype=jnp.float32)
    images = jnp.broadcast_to(value[:, None, None, None], (count, 16, 24, 1))
    run = functools.partial(mix.random_mix, per=per, **OPTIONS | options)
    images, targets = jax.jit(run)(
        jax.random.key(seed), images, jnp.eye(count), active=jnp.asarray(active)
    )
    return np.asarray(images)[..., 0], np.asarray(targets)


def draw_fractions(count=4000, **options):
    draw = functools.partial(
        mix.random_fractions, height=16, width=24, **OPTIONS | options
    )
    keys = jax.random.split(jax.random.key(0), count)
    return np.asarray(jax.jit(jax.vmap(draw))(keys))


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.5, 0.8, 1.0, 4.0])
def test_beta_has_its_distribution(alpha):
    keys = jax.random.split(jax.random.key(0), 20_000)
    draws = np.asarray(jax.vmap(lambda k: mix.random_beta(k, alpha=alpha))(keys))
    assert np.isfinite(draws).all()
    # float32 rounds some draws of a small alpha to 0 or 1, so others are compared.
    points = np.linspace(0.01, 0.99, 99)
    found = (draws[:, None] <= points).mean(0)
    assert np.abs(found - stats.beta(alpha, alpha).cdf(points)).max() < 0.015


@pytest.mark.parametrize("kind", ["mixup_alpha", "cutmix_alpha"])
@pytest.mark.parametrize("per", [slow("batch"), "image"])
def test_target_is_the_share_of_each_image(kind, per):
    images, targets = mixed(per=per, **{kind: 1.0})
    for i in range(64):
        kept = targets[i, i]
        before = (i - 1) % 64
        assert targets[i, before] == pytest.approx(1 - kept, abs=1e-6)
        assert targets[i].sum() == pytest.approx(1, abs=1e-6)
        # The value of an image is its own number, which the mean of the pixels shows.
        expected = kept * i + (1 - kept) * before
        assert images[i].mean() == pytest.approx(expected, abs=1e-4)


def test_mixup_mixes_all_pixels_alike():
    images, _ = mixed(mixup_alpha=1.0)
    assert np.ptp(images, axis=(1, 2)).max() == 0


def test_cutmix_pastes_one_rectangle():
    images, targets = mixed(cutmix_alpha=1.0)
    for i in range(64):
        pasted = images[i] != i
        assert (images[i][pasted] == (i - 1) % 64).all()
        height, width = pasted.any(1).sum(), pasted.any(0).sum()
        assert pasted.sum() == height * width
        assert targets[i, i] == pytest.approx(1 - height * width / (16 * 24))


def test_cutmix_has_the_images_proportions_and_is_cut_off_at_its_edges():
    fractions = draw_fractions(cutmix_alpha=1.0)
    height, width = (fractions == 0).any(2).sum(1), (fractions == 0).any(1).sum(1)
    assert height.max() == 14  # twice the whole part of less than 8
    assert width.max() == 22
    # Where the middle is far from the edges: 2 * int(side / 2 * sqrt(area)).
    inner = (fractions[:, [0, -1]] == 1).all((1, 2))
    inner &= (fractions[:, :, [0, -1]] == 1).all((1, 2))
    inner &= height > 0
    assert inner.sum() > 500
    assert (height[inner] % 2 == 0).all()
    assert (np.abs(width[inner] - 1.5 * height[inner]) <= 2).all()
    # Means over area (uniform for alpha 1) and centre, from Yun et al.'s algorithm.
    rng = np.random.default_rng(0)
    half = 0.5 * np.sqrt(rng.uniform(size=100_000))
    expected = 1.0
    for size in (16, 24):
        centre, part = rng.integers(size, size=100_000), (half * size).astype(int)
        low, high = np.maximum(centre - part, 0), np.minimum(centre + part, size)
        expected = expected * (high - low)
    found = (fractions == 0).sum((1, 2))
    assert stats.ks_2samp(found, expected).pvalue > 1e-3


@pytest.mark.slow
def test_one_draw_for_the_batch_or_one_for_each_image():
    for kind in ("mixup_alpha", "cutmix_alpha"):
        _, targets = mixed(per="batch", **{kind: 1.0})
        assert len(np.unique(np.diag(targets))) == 1
        _, targets = mixed(per="image", **{kind: 1.0})
        assert len(np.unique(np.diag(targets))) > 20


@pytest.mark.slow
@pytest.mark.parametrize(("prob", "switch_prob"), [(0.3, 0.5), (1.0, 0.8), (1.0, 0.0)])
def test_probabilities_of_mixing_and_of_cutmix(prob, switch_prob):
    # With these alphas both change every image.
    fractions = draw_fractions(
        mixup_alpha=5.0, cutmix_alpha=5.0, prob=prob, switch_prob=switch_prob
    )
    is_cutmix = (fractions == 0).any((1, 2))
    is_mixup = ~is_cutmix & (fractions < 1).any((1, 2))
    count = int((is_cutmix | is_mixup).sum())
    assert stats.binomtest(count, 4000, prob).pvalue > 1e-3
    assert stats.binomtest(int(is_cutmix.sum()), count, switch_prob).pvalue > 1e-3


def test_inactive_changes_nothing():
    images, targets = mixed(active=False, mixup_alpha=1.0, cutmix_alpha=1.0)
    np.testing.assert_array_equal(targets, np.eye(64))
    np.testing.assert_array_equal(images[:, 0, 0], np.arange(64))
    assert np.ptp(images, axis=(1, 2)).max() == 0


def test_a_batch_of_one_stays_as_it_is():
    images, targets = mixed(count=1, mixup_alpha=1.0)
    assert targets == pytest.approx(1)
    assert (images == 0).all()
