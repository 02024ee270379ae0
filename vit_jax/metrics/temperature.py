"""Temperature scaling that is declined where it might do harm."""

import math

import numpy as np
import scipy.optimize
from jaxtyping import Float, Int
from scipy.special import log_softmax

from vit_jax.metrics import classification

# The slope of the likelihood in T is decided by the mistakes: with one or two of them a
# maximum of the likelihood says nothing about other images.
MIN_MISTAKES = 10
# Standard deviation of the normal distribution of log T around 0 that is assumed before
# any image is seen. Its weight is that of a few images, so it matters for few only.
PRIOR_STD = 0.5
_NUM_FOLDS = 10
_RANGE = (0.01, 100.0)


def fit(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]
) -> tuple[float, str]:
    """A T for logits / T (Guo et al. 2017, arXiv:1706.04599, section 4.2), or none.

    T maximises the likelihood of the labels times a normal distribution of log T around
    0. It is used only if the split has `MIN_MISTAKES` wrong predictions and as many
    right ones, and if in ten-fold cross-validation the images that each T was not
    fitted on gain more log-likelihood than two standard errors of that gain. A T above
    1 means that the model is too confident.

    Args:
      logits: of images that the model was not trained on.
      labels: of these images.

    Returns:
      T, which is 1 if scaling was declined and NaN if a logit is not finite; and why it
      was declined, as a sentence, "" if it was not.
    """
    if not np.isfinite(logits).all():
        return math.nan, ""
    logits = logits.astype(np.float64)
    wrong = int((classification.predicted_classes(logits) != labels).sum())
    rarer, what = min((wrong, "wrong"), (len(labels) - wrong, "right"))
    if rarer < MIN_MISTAKES:
        few = f"only {rarer}" if rarer else "none"
        return 1.0, (
            f"{few} of the {len(labels):,} images to fit it on are "
            f"predicted {what}, and at least {MIN_MISTAKES} are needed"
        )
    gain = _cross_validated_gains(logits, labels)
    error = gain.std(ddof=1) / math.sqrt(len(gain))
    if gain.mean() <= 2 * error:
        return 1.0, (
            "in cross-validation it changed the negative log-likelihood by "
            f"{-gain.mean():+.4f} ± {error:.4f} (standard error), which is no clear "
            "gain"
        )
    return _most_probable(logits, labels), ""


def _log_likelihoods(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"], temperature: float
) -> Float[np.ndarray, " n"]:
    return log_softmax(logits / temperature, axis=1)[np.arange(len(labels)), labels]


def _most_probable(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]
) -> float:
    def loss(log_t: float) -> float:
        fitted = _log_likelihoods(logits, labels, math.exp(log_t)).sum()
        return (log_t / PRIOR_STD) ** 2 / 2 - fitted

    result = scipy.optimize.minimize_scalar(
        loss, bounds=np.log(_RANGE), method="bounded", options={"xatol": 1e-6}
    )
    return math.exp(result.x)


def _cross_validated_gains(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """What each image's log-likelihood gains by a T that the other folds give."""
    folds = np.random.default_rng(0).permutation(len(labels)) % _NUM_FOLDS
    gains = np.empty(len(labels))
    for fold in range(_NUM_FOLDS):
        out = folds == fold
        temperature = _most_probable(logits[~out], labels[~out])
        scaled, plain = (
            _log_likelihoods(logits[out], labels[out], t) for t in (temperature, 1.0)
        )
        gains[out] = scaled - plain
    return gains
