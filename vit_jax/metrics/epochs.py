"""Logged training values by epoch, and the epoch at which they reach a goal."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float, Real


@dataclasses.dataclass(frozen=True)
class EpochMeans:
    """Means of a logged value over windows of about one epoch.

    Attributes:
      epochs: passes over the data at the end of each window.
      seconds: training time at the end of each window.
      values: the mean in each window; NaN where a logged value is NaN.
    """

    epochs: Float[np.ndarray, " windows"]
    seconds: Float[np.ndarray, " windows"]
    values: Float[np.ndarray, " windows"]

    def first_reaching(self, goal: float) -> tuple[float, float]:
        """Epochs and seconds of training until a value is at least `goal`.

        Both are infinite if no value is, and NaN if nothing was logged.
        """
        if not len(self.values):
            return math.nan, math.nan
        reached = np.flatnonzero(self.values >= goal)
        if not len(reached):
            return math.inf, math.inf
        return float(self.epochs[reached[0]]), float(self.seconds[reached[0]])


def epoch_means(
    steps: Real[np.ndarray, " intervals"],
    epochs: Float[np.ndarray, " intervals"],
    seconds: Float[np.ndarray, " intervals"],
    values: Float[np.ndarray, " intervals"],
) -> EpochMeans:
    """Averages the intervals of a log over epochs.

    An interval may end anywhere, and evaluations at whole steps miss the ends of epochs
    by a little. So each window ends with the interval whose end is nearest to a whole
    number of epochs. An interval that is longer than an epoch is a window of its own,
    and so is all of a log that ends before its first epoch does. An unfinished later
    epoch is a window if at least half of it is done, and else is left out.

    Args:
      steps: optimizer steps at the end of each interval, increasing.
      epochs: passes over the data at the end of each interval.
      seconds: training time at the end of each interval.
      values: mean of each interval; the interval's steps are its weight.
    """
    if not len(steps):
        return EpochMeans(epochs, seconds, values)
    whole = np.arange(1, max(1, round(epochs[-1])) + 1)
    ends = np.unique([np.abs(epochs - epoch).argmin() for epoch in whole])
    starts = np.concatenate([[0], ends[:-1] + 1])
    weights = np.diff(steps, prepend=0)[: ends[-1] + 1]
    sums = np.add.reduceat(weights * values[: ends[-1] + 1], starts)
    return EpochMeans(
        epochs[ends], seconds[ends], sums / np.add.reduceat(weights, starts)
    )
