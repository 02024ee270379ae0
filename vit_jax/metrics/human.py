"""Agreement with people: CIFAR-10H (Peterson et al. 2019, arXiv:1908.07086).

`counts` [n, k] says how often people chose each class for each image, in the order of
the test split; `load_counts` refuses counts that do not fit the split.
"""

import math
import pathlib
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int, Int64
from scipy.special import entr, log_softmax, softmax

from vit_jax.errors import UserError
from vit_jax.files import user_path
from vit_jax.metrics import confusions
from vit_jax.metrics.classification import defined


def load_counts(path: str | pathlib.Path, shape: tuple[int, int]) -> np.ndarray:
    """The counts in a .npy file, int64 of `shape` (examples, classes).

    Raises:
      UserError: no such file, not a .npy file, another shape or type, a negative count,
        or an image that nobody classified.
    """
    file_path = user_path(path)
    try:
        with file_path.open("rb") as file:
            counts = np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # A damaged head of the file has errors of all kinds.
        raise UserError(
            f"{path} cannot be read as people's counts ({error}); give the .npy file "
            "of CIFAR-10H."
        ) from None
    if counts.shape != tuple(shape) or counts.dtype != np.int64:
        raise UserError(
            f"People's counts are {counts.dtype} {list(counts.shape)}, but must be "
            f"int64 {list(shape)} (examples, classes); give the counts of this split."
        )
    bad = np.flatnonzero((counts < 0).any(axis=1) | (counts.sum(axis=1) == 0))
    if bad.size:
        raise UserError(
            f"People's counts of example {bad[0]} are {counts[bad[0]].tolist()}, but "
            "must not be negative nor all 0; give the file as it was published."
        )
    return counts


def confusion_correlation(
    logits: Float[np.ndarray, "n k"],
    labels: Int[np.ndarray, " n"],
    counts: Int64[np.ndarray, "n k"],
) -> float:
    """How far the model confuses the same classes as people, -1 to 1.

    Pearson's correlation, over the k (k - 1) pairs of a true and another class, between
    the fraction of the true class's examples that the model predicts as the other and
    the fraction of people's choices on these examples that name the other. NaN if
    either makes no mistakes, or equally many of each kind.
    """
    num_classes = logits.shape[1]
    people = np.zeros((num_classes, num_classes))
    np.add.at(people, labels, counts)
    model = confusions.confusion_matrix(logits, labels)
    off_diagonal = ~np.eye(num_classes, dtype=bool)
    pairs = np.stack([_fractions(matrix)[off_diagonal] for matrix in (model, people)])
    if (np.ptp(pairs, axis=1) == 0).any():
        return math.nan
    return float(np.corrcoef(pairs)[0, 1])


def largest_differences(
    logits: Float[np.ndarray, "n k"],
    counts: Int64[np.ndarray, "n k"],
    num_examples: int,
) -> tuple[Int64[np.ndarray, " m"], Float64[np.ndarray, " m"]]:
    """Indices of the examples on which model and people differ most, and how much.

    The difference is the total variation distance: half the sum of the absolute
    differences between the model's probabilities and the fractions of people, 0 to 1.
    Examples with a logit that is not finite are left out.
    """
    finite = np.flatnonzero(np.isfinite(logits).all(axis=1))
    probabilities = softmax(logits[finite].astype(np.float64), axis=1)
    differences = np.abs(probabilities - _fractions(counts[finite])).sum(axis=1) / 2
    order = np.argsort(-differences, kind="stable")[:num_examples]
    return finite[order], differences[order]


def summarize(
    logits: Float[np.ndarray, "n k"],
    labels: Int[np.ndarray, " n"],
    counts: Int64[np.ndarray, "n k"],
) -> dict[str, Any]:
    """Numbers of the model and of people; undefined ones are None.

    Returns:
      cross_entropy (mean, of the model's probabilities to people's choices, in nats),
      entropy_of_people (mean, in nats: how far they disagree, and the lower bound of
      cross_entropy), confusion_correlation, accuracy_of_people (mean over images),
      accuracy_of_majority.
    """
    people, cross_entropy = _fractions(counts), math.nan
    if np.isfinite(logits).all():
        log_probs = log_softmax(logits.astype(np.float64), axis=1)
        cross_entropy = -(people * log_probs).sum(axis=1).mean()
    values = {
        "cross_entropy": cross_entropy,
        "entropy_of_people": entr(people).sum(axis=1).mean(),
        "confusion_correlation": confusion_correlation(logits, labels, counts),
        "accuracy_of_people": people[np.arange(len(labels)), labels].mean(),
        "accuracy_of_majority": (counts.argmax(axis=1) == labels).mean(),
    }
    return defined(values)


def _fractions(counts: np.ndarray) -> Float64[np.ndarray, "n k"]:
    """Each row over its sum; rows of zeros stay zero."""
    totals = counts.sum(axis=1, keepdims=True)
    return counts / np.maximum(totals, 1)
