"""Paired comparison: counts by hand, and scipy's own bootstrap."""

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


def test_bootstrap_agrees_with_scipy():
    a, b = _pair(300, 60, 30, 10)
    difference, low, high = paired.bootstrap_difference(a, b)
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


def test_bootstrap_is_seeded_and_paired():
    a, b = _pair(3000, 901, 417, 703)
    assert paired.bootstrap_difference(a, b) == paired.bootstrap_difference(a, b)
    # Equal answers never differ, however the examples are drawn.
    assert paired.bootstrap_difference(a, a) == (0, 0, 0)


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
