"""Is one model really better than another, and how far do seeds scatter?

`correct_a` and `correct_b` say of the same examples, in the same order, whether each
model is right.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import scipy.stats
from jaxtyping import Bool


@dataclasses.dataclass(frozen=True)
class McNemar:
    """McNemar's test.

    Attributes:
      only_a: number of examples that only model a gets right.
      only_b: number that only model b gets right.
      p_value: chance of a split at least as uneven if both models were equally good.
    """

    only_a: int
    only_b: int
    p_value: float


def mcnemar(
    correct_a: Bool[np.ndarray, "n"], correct_b: Bool[np.ndarray, "n"]
) -> McNemar:
    """McNemar's exact two-sided test of equal accuracy (Psychometrika 12, 1947).

    Examples on which the models agree say nothing about which is better; of the others
    each model should win half, so their number is binomial. One training run of each
    model is compared, not the recipes: that takes several seeds.
    """
    only_a = int((correct_a & ~correct_b).sum())
    only_b = int((correct_b & ~correct_a).sum())
    if only_a + only_b == 0:
        return McNemar(0, 0, 1.0)
    return McNemar(
        only_a, only_b, float(scipy.stats.binomtest(only_a, only_a + only_b).pvalue)
    )


@dataclasses.dataclass(frozen=True)
class Difference:
    """Accuracy of a minus accuracy of b (shares), with a confidence interval."""

    estimate: float
    low: float
    high: float


def bootstrap_difference(
    correct_a: Bool[np.ndarray, "n"],
    correct_b: Bool[np.ndarray, "n"],
    *,
    confidence: float = 0.95,
    num_resamples: int = 10_000,
    seed: int = 0,
) -> Difference:
    """Percentile bootstrap interval of the accuracy difference, examples kept in pairs.

    Each example contributes +1, 0 or -1, so drawing n examples with replacement is one
    draw of a multinomial of those three counts: exact, and independent of n.
    """
    n = len(correct_a)
    only_a = np.mean(correct_a & ~correct_b)
    only_b = np.mean(correct_b & ~correct_a)
    # Clipped: the two shares may sum to 1 + 1e-16.
    shares = [only_a, only_b, max(0.0, 1 - only_a - only_b)]
    draws = np.random.default_rng(seed).multinomial(n, shares, num_resamples)
    tail = (1 - confidence) / 2
    low, high = np.quantile((draws[:, 0] - draws[:, 1]) / n, [tail, 1 - tail])
    return Difference(float(only_a - only_b), float(low), float(high))


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1) over seeds.

    The deviation of a single value is NaN: one seed says nothing about scatter.
    """
    std = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return float(np.mean(values)), std
