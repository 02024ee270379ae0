"""Numbers of several seeds as one."""

import statistics
from collections.abc import Iterable


def mean_std(values: Iterable[float]) -> tuple[float, float]:
    """(mean, sample standard deviation); of one value the deviation is 0."""
    values = list(values)
    return statistics.fmean(values), statistics.stdev(values) if values[1:] else 0.0


def show_mean_std(values: Iterable[float], factor: float = 100) -> str:
    """ "93.41 ± 0.12 (3)": mean, deviation and number; "–" of none."""
    values = [factor * value for value in values]
    if not values:
        return "–"
    mean, std = mean_std(values)
    spread = f" ± {std:.2f}" if len(values) > 1 else ""
    return f"{mean:.2f}{spread} ({len(values)})"
