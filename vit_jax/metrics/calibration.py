"""How well confidence matches accuracy; `temperature` fits a scale to it.

Confidence is the probability of the predicted class. Arguments are as in
`classification`; a result is NaN if a logit is not finite.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float, Int
from scipy.special import softmax

from vit_jax.metrics import classification


@dataclasses.dataclass(frozen=True)
class ReliabilityBins:
    """Examples grouped by confidence.

    Attributes:
      edges: of the bins, 0 to 1; a bin includes its upper edge.
      counts: number of examples.
      confidence: mean of each bin; NaN if it is empty.
      accuracy: fraction of each bin that is predicted correctly; NaN if it is empty.
    """

    edges: Float[np.ndarray, " edges"]
    counts: Int[np.ndarray, " bins"]
    confidence: Float[np.ndarray, " bins"]
    accuracy: Float[np.ndarray, " bins"]

    @property
    def calibration_error(self) -> float:
        """|accuracy - confidence|, averaged over the examples; 0 is calibrated.

        Over bins of equal width this is the expected calibration error (ECE) of Guo et
        al. 2017 (arXiv:1706.04599), equation 3; over bins of equal mass the adaptive
        one.
        """
        filled = self.counts > 0
        if not filled.any():
            return math.nan
        gaps = np.abs(self.accuracy - self.confidence)[filled]
        return float(np.average(gaps, weights=self.counts[filled]))


def reliability_bins(
    logits: Float[np.ndarray, "n k"],
    labels: Int[np.ndarray, " n"],
    num_bins: int = 15,
    *,
    equal_mass: bool = False,
) -> ReliabilityBins:
    """Groups examples by confidence into bins of equal width, or of equal numbers.

    The edges of equal-mass bins are quantiles of the confidence, so equal confidences
    are in one bin. If a logit is not finite, all bins are empty.

    sklearn.calibration.calibration_curve leaves empty bins out and returns neither
    edges nor numbers of examples, which a calibration error and a diagram need.
    """
    if not np.isfinite(logits).all():
        logits, labels = logits[:0], labels[:0]
    confidence = classification.confidence(logits)
    correct = classification.predicted_classes(logits) == labels
    edges = np.linspace(0, 1, num_bins + 1)
    if equal_mass and len(labels):
        edges[1:-1] = np.quantile(confidence, edges[1:-1], method="inverted_cdf")
    bins = np.searchsorted(edges[1:-1], confidence, side="left")
    counts = np.bincount(bins, minlength=num_bins)
    with np.errstate(invalid="ignore"):  # 0/0 is NaN in an empty bin
        return ReliabilityBins(
            edges,
            counts,
            np.bincount(bins, confidence, num_bins) / counts,
            np.bincount(bins, correct, num_bins) / counts,
        )


def mean_confidence_by_class(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Mean confidence of each true class's correct predictions, and of its wrong ones.

    NaN if the class has no such prediction.
    """
    predicted, num_classes = classification.predicted_classes(logits), logits.shape[1]
    means = []
    for chosen in (predicted == labels, (predicted != labels) & (predicted >= 0)):
        classes, values = labels[chosen], classification.confidence(logits[chosen])
        counts = np.bincount(classes, minlength=num_classes)
        sums = np.bincount(classes, values, minlength=num_classes)
        means.append(np.where(counts, sums / np.maximum(counts, 1), np.nan))
    return means[0], means[1]


def brier_score(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]
) -> float:
    """Mean squared distance of the probabilities to the one-hot label, 0 to 2.

    Brier, "Verification of forecasts expressed in terms of probability" (1950), in its
    form for several classes: summed over them, not halved.
    """
    if not np.isfinite(logits).all():
        return math.nan
    errors = softmax(logits.astype(np.float64), axis=1)
    errors[np.arange(len(labels)), labels] -= 1
    return float(np.square(errors).sum(axis=1).mean())


def summarize(
    logits: Float[np.ndarray, "n k"],
    labels: Int[np.ndarray, " n"],
    *,
    temperature: float = 1.0,
) -> dict[str, float | None]:
    """All of the above for logits / temperature; undefined numbers are None.

    Returns:
      temperature, ece (15 bins), adaptive_ece (15 bins), brier_score, nll (negative
      log-likelihood, nats).
    """
    scaled = logits.astype(np.float64) / temperature
    values = {
        "temperature": temperature,
        "ece": reliability_bins(scaled, labels).calibration_error,
        "adaptive_ece": reliability_bins(
            scaled, labels, equal_mass=True
        ).calibration_error,
        "brier_score": brier_score(scaled, labels),
        "nll": classification.cross_entropy(scaled, labels),
    }
    return classification.defined(values)
