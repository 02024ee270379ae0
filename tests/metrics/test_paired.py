"""Paired comparison: counts by hand, and intervals that cover."""

import math

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats import contingency_tables

from vit_jax.metrics import paired


def _pair(both, only_a, only_b, neither):
    kinds = np.repeat([3, 1, 2, 0], [both, only_a, only_b, neither])
    return (kinds & 1).astype(bool), (kinds & 2).astype(bool)


def test_mcnemar_by_hand():
    result = paired.mcnemar(*_pair(50, 1, 5, 10))
    # 6 fair coins show at most one head, or at most one tail: 2 * (1 + 6) / 64.
    assert result == {"only_a": 1, "only_b": 5, "p_value": pytest.approx(14 / 64)}
    assert paired.mcnemar(*_pair(9, 0, 0, 3))["p_value"] == 1.0


def test_mcnemar_agrees_with_statsmodels():
    rng = np.random.default_rng(0)
    for fraction in (0.1, 0.5, 0.9):
        a, b = rng.random((2, 60)) < [[fraction], [0.5]]
        table = [[sum(a & b), sum(a & ~b)], [sum(~a & b), sum(~a & ~b)]]
        expected = contingency_tables.mcnemar(table, exact=True).pvalue
        assert paired.mcnemar(a, b)["p_value"] == pytest.approx(expected, rel=1e-9)


def test_the_interval_of_many_images_agrees_with_scipys_bootstrap():
    a, b = _pair(300, 60, 30, 10)
    difference, low, high = paired.accuracy_difference(a, b)
    assert difference == pytest.approx(30 / 400)
    theirs = scipy.stats.bootstrap(
        (a.astype(float) - b,),
        np.mean,
        method="percentile",
        n_resamples=2000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert low == pytest.approx(theirs.low, abs=0.005)
    assert high == pytest.approx(theirs.high, abs=0.005)


def test_the_interval_of_few_images_by_hand():
    # (4 + 1) / 12 and (0 + 1) / 12 of the images with one more of either kind.
    half = 1.96 * ((6 / 12 - (4 / 12) ** 2) / 12) ** 0.5
    found = paired.accuracy_difference(*_pair(5, 4, 0, 1))
    assert found == pytest.approx((0.4, 4 / 12 - half, 4 / 12 + half))
    # One image says nothing, and equal answers do not exclude a small difference.
    assert paired.accuracy_difference(*_pair(0, 1, 0, 0)) == pytest.approx(
        (1, 1 / 3 - 1.96 * (8 / 27) ** 0.5, 1)
    )
    difference, low, high = paired.accuracy_difference(*_pair(900, 0, 0, 100))
    assert difference == 0 and -low == high == pytest.approx(0.0028, abs=1e-4)


def test_the_interval_does_not_contradict_mcnemar_of_few_mistakes():
    for wins in range(1, 9):
        a, b = _pair(980, wins, 0, 20 - wins)
        _, low, _ = paired.accuracy_difference(a, b)
        assert (low > 0) == (paired.mcnemar(a, b)["p_value"] < 0.05), wins


def test_the_interval_covers_the_true_difference():
    rng, covered = np.random.default_rng(0), 0
    for _ in range(2000):
        counts = rng.multinomial(100, [0.9, 0.04, 0.01, 0.05])
        _, low, high = paired.accuracy_difference(*_pair(*counts))
        covered += low <= 0.03 <= high
    assert 0.94 < covered / 2000 < 0.99


def test_mean_and_std():
    assert paired.mean_and_std([1.0, 2.0, 3.0]) == (2.0, 1.0)
    mean, std = paired.mean_and_std([5.0])
    assert mean == 5.0 and math.isnan(std)


def test_equal_values_have_no_deviation():
    assert np.std([0.1] * 3, ddof=1) > 0
    assert paired.mean_and_std([0.1] * 3)[1] == 0


def test_the_interval_over_seeds_by_hand():
    a, b = np.array([0.93, 0.95, 0.94]), np.array([0.91, 0.92, 0.93])
    # The deviation of the differences is 0.01, and 4.3027 is Student's 97.5% quantile
    # for two degrees of freedom.
    half = 4.3027 * 0.01 / 3**0.5
    found = paired.seed_difference(a, b)
    assert found == pytest.approx((0.02, 0.02 - half, 0.02 + half), rel=1e-4)
    # Of one seed, and of equal differences.
    for pair, expected in (((a[:1], b[:1]), 0.02), ((a + 1, a), 1)):
        mean, low, high = paired.seed_difference(*pair)
        assert mean == pytest.approx(expected)
        assert math.isnan(low) and math.isnan(high)
