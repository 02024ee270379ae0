"""Receiver operating characteristic (ROC) curves, each class against all the others."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import sklearn.metrics
from jaxtyping import Float, Int
from scipy.special import log_softmax


@dataclasses.dataclass(frozen=True)
class RocCurve:
    """The curve of one class, and the area under it (AUC), all 0 to 1.

    A class to which all or none of the split's examples belong has no curve: its rates
    are empty and its area is NaN. The same holds for logits that are not finite.
    """

    false_positive_rate: Float[np.ndarray, " points"]
    true_positive_rate: Float[np.ndarray, " points"]
    auc: float


_NO_CURVE = RocCurve(np.empty(0), np.empty(0), math.nan)


def one_vs_rest(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]
) -> list[RocCurve]:
    """The ROC curve of each class; examples are ranked by the class's probability.

    Ranks come from float64 log-probabilities, because thousands of a confident model's
    float32 probabilities round to 1, which would make them ties.
    """
    if not np.isfinite(logits).all():
        return [_NO_CURVE] * logits.shape[1]
    scores = log_softmax(logits.astype(np.float64), axis=1)
    curves = []
    for index in range(logits.shape[1]):
        positive = labels == index
        if positive.all() or not positive.any():
            curves.append(_NO_CURVE)
            continue
        false_rate, true_rate, _ = sklearn.metrics.roc_curve(positive, scores[:, index])
        area = float(sklearn.metrics.auc(false_rate, true_rate))
        curves.append(RocCurve(false_rate, true_rate, area))
    return curves


def macro_auc(curves: Sequence[RocCurve]) -> float:
    """Unweighted mean of the areas that are defined; NaN if none is."""
    areas = [curve.auc for curve in curves if not math.isnan(curve.auc)]
    return float(np.mean(areas)) if areas else math.nan
