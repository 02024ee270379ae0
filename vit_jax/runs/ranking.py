"""Which of two evaluations is the better one."""

import math

NEVER_BEST = (-math.inf, -math.inf)


def rank(accuracy: float | None, loss: float | None) -> tuple[float, float]:
    """Larger for a better evaluation: a higher accuracy, then a lower loss.

    `NEVER_BEST` where either is missing, NaN or infinite. Of equal ones the earliest
    counts as the best: what `max` returns of evaluations in order.
    """
    if accuracy is None or loss is None:
        return NEVER_BEST
    if not (math.isfinite(accuracy) and math.isfinite(loss)):
        return NEVER_BEST
    return accuracy, -loss
