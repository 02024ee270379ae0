"""Tests of the difference between two models, and the variation over seeds.

`correct_a` and `correct_b` say of the same examples, in the same order, whether each
model predicts them correctly.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float


def mcnemar(
    correct_a: Bool[np.ndarray, " n"], correct_b: Bool[np.ndarray, " n"]
) -> dict[str, int | float]:
    """McNemar's exact two-sided test of equal accuracy (Psychometrika 12, 1947).

    Examples on which the models agree do not count. Of the others, each of two equally
    good models wins half, so that the number of wins is binomial. The test compares one
    training run of each model; to compare recipes takes several seeds.

    Returns:
      only_a, only_b (numbers of examples that only this model predicts correctly),
      p_value (probability of a split at least as uneven between equally good models).
    """
    # It takes a second to import, which those who only ask for means should not need.
    import scipy.stats

    only_a = int((correct_a & ~correct_b).sum())
    only_b = int((correct_b & ~correct_a).sum())
    p_value = 1.0
    if only_a + only_b:
        p_value = float(scipy.stats.binomtest(only_a, only_a + only_b).pvalue)
    return {"only_a": only_a, "only_b": only_b, "p_value": p_value}


def accuracy_difference(
    correct_a: Bool[np.ndarray, " n"], correct_b: Bool[np.ndarray, " n"]
) -> tuple[float, float, float]:
    """Accuracy of a minus that of b (fractions), and the ends of its 95% interval.

    It is the interval of Bonett and Price ("Adjusted Wald Confidence Interval for a
    Difference of Binomial Proportions Based on Paired Data", J. Educ. Behav. Stat. 37,
    2012), which adds an example to each kind on which the models disagree. So it is
    not too narrow where they disagree on few examples, or on none.
    """
    n = len(correct_a)
    only_a = int((correct_a & ~correct_b).sum())
    only_b = int((correct_b & ~correct_a).sum())
    wins, losses = (only_a + 1) / (n + 2), (only_b + 1) / (n + 2)
    # 1.96 standard errors. No difference is above 1.
    half = 1.96 * math.sqrt((wins + losses - (wins - losses) ** 2) / (n + 2))
    low, high = max(-1.0, wins - losses - half), min(1.0, wins - losses + half)
    return (only_a - only_b) / n, low, high


def mean_and_std(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1) over seeds.

    The standard deviation of a single value is NaN.
    """
    if len(values) < 2:
        return float(np.mean(values)), math.nan
    # Of equal values it would be a rounding error, such as 1.7e-17.
    std = float(np.std(values, ddof=1)) if np.ptp(values) else 0.0
    return float(np.mean(values)), std


def seed_difference(
    a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]
) -> tuple[float, float, float]:
    """Mean of a minus b over seeds, and the ends of its 95% interval.

    It is the interval of a paired t test (Student, "The Probable Error of a Mean",
    Biometrika 6, 1908) with n - 1 degrees of freedom. Its ends are NaN for one seed,
    and where the difference is the same for all, which says nothing about others.

    Args:
      a, b: a score of two recipes, seed by seed.
    """
    import scipy.stats

    mean = float(np.mean(a - b))
    if np.ptp(a - b) < 1e-9:
        return mean, math.nan, math.nan
    low, high = scipy.stats.ttest_rel(a, b).confidence_interval(0.95)
    return mean, float(low), float(high)
