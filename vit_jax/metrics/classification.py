"""How well logits name the class, over a whole split and class by class.

Everywhere: `logits` [n, k] are unnormalised scores, `labels` [n] are classes 0 to k-1,
the predicted class is the first of the largest logits, and shares are 0 to 1. An
example with a logit that is not finite has no predicted class (-1): it is never right,
and accuracy and loss of a split that holds one are NaN, so that a broken model is seen.
"""

import dataclasses
import math
from typing import Any

import numpy as np
import sklearn.metrics
from jaxtyping import Float, Int, Int64
from scipy.special import log_softmax, softmax


def predicted_classes(logits: Float[np.ndarray, "n k"]) -> Int64[np.ndarray, "n"]:
    """The class with the largest logit; -1 where a logit is NaN or infinite."""
    return np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), -1)


def accuracy(logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, "n"]) -> float:
    """Share of examples whose predicted class is the label; NaN if not finite."""
    return top_k_accuracy(logits, labels, 1)


def top_k_accuracy(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, "n"], top: int
) -> float:
    """Share of examples whose label is among the `top` largest logits.

    Of equal logits the lower class comes first, as in the predicted class. So a model
    that gives every class the same logit scores no better than chance.
    """
    if not np.isfinite(logits).all():
        return math.nan
    best = np.argsort(-logits, axis=1, kind="stable")[:, :top]
    return float((best == labels[:, None]).any(axis=1).mean())


def cross_entropy(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, "n"]
) -> float:
    """Mean negative log-likelihood of the labels, in nats; NaN if not finite.

    Computed in float64 from log-probabilities, so a confident mistake costs its true
    amount in place of infinity.
    """
    if not np.isfinite(logits).all():
        return math.nan
    log_probs = log_softmax(logits.astype(np.float64), axis=1)
    return float(-log_probs[np.arange(len(labels)), labels].mean())


def confusion_matrix(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, "n"]
) -> Int64[np.ndarray, "k k"]:
    """Number of examples of each class (row) predicted as each class (column).

    Examples without a predicted class are in no cell.
    """
    return sklearn.metrics.confusion_matrix(
        labels, predicted_classes(logits), labels=np.arange(logits.shape[1])
    )


def top_confusions(
    matrix: Int[np.ndarray, "k k"], num_pairs: int = 10
) -> list[tuple[int, int, int]]:
    """The most frequent mistakes of a confusion matrix, most frequent first.

    Returns:
      (true class, predicted class, number of examples), without pairs never confused;
      of equally frequent pairs the lower classes come first.
    """
    mistakes = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-mistakes, axis=None, kind="stable")[:num_pairs]
    rows, columns = np.unravel_index(order, matrix.shape)
    return [
        (int(row), int(column), int(matrix[row, column]))
        for row, column in zip(rows, columns, strict=True)
        if mistakes[row, column]
    ]


def most_confident_mistakes(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, "n"], num_examples: int
) -> Int64[np.ndarray, "m"]:
    """Indices of the wrong predictions held with most confidence, highest first.

    m is `num_examples`, or the number of mistakes if that is less.
    """
    predicted = predicted_classes(logits)
    wrong = np.flatnonzero((predicted != labels) & (predicted >= 0))
    confidence = softmax(logits[wrong].astype(np.float64), axis=1).max(
        axis=1, initial=0
    )
    return wrong[np.argsort(-confidence, kind="stable")[:num_examples]]


@dataclasses.dataclass(frozen=True)
class PerClass:
    """Quality class by class; NaN where the split has no example of the class.

    A class that is never predicted has precision 0. Macro means are over the classes
    that the split has.
    """

    precision: Float[np.ndarray, "k"]
    recall: Float[np.ndarray, "k"]
    f1: Float[np.ndarray, "k"]
    support: Int[np.ndarray, "k"]

    def macro(self) -> dict[str, float]:
        """Unweighted means over the classes that have examples."""
        return {
            name: float(np.nanmean(getattr(self, name)))
            for name in ("precision", "recall", "f1")
        }


def per_class(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, "n"]
) -> PerClass:
    """Precision, recall, F1 score and number of examples of each class."""
    num_classes = logits.shape[1]
    support = np.bincount(labels, minlength=num_classes)
    present = np.flatnonzero(support)
    scores = np.full((3, num_classes), np.nan)
    scores[:, present] = sklearn.metrics.precision_recall_fscore_support(
        labels, predicted_classes(logits), labels=present, zero_division=0
    )[:3]
    return PerClass(*scores, support)


def per_class_accuracy(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, "n"]
) -> Float[np.ndarray, "k"]:
    """Share of each class's examples that are right (its recall); NaN without any."""
    return per_class(logits, labels).recall


def summarize(
    logits: Float[np.ndarray, "n k"],
    labels: Int[np.ndarray, "n"],
    class_names: tuple[str, ...],
    num_confusions: int = 10,
) -> dict[str, Any]:
    """All of the above in values that JSON has: undefined numbers are None.

    Returns:
      num_examples, num_without_prediction, accuracy, cross_entropy, top_5_accuracy (of
      more than five classes), macro (precision, recall, f1), worst_class (name, f1),
      per_class (name -> accuracy, precision, recall, f1, support), confusion_matrix
      and top_confusions (true, predicted, count).
    """
    scores = per_class(logits, labels)
    matrix = confusion_matrix(logits, labels)
    worst = int(np.nanargmin(scores.f1))
    summary = {
        "num_examples": len(labels),
        "num_without_prediction": int((predicted_classes(logits) < 0).sum()),
        "accuracy": _defined(accuracy(logits, labels)),
        "cross_entropy": _defined(cross_entropy(logits, labels)),
        "macro": scores.macro(),
        "worst_class": {"name": class_names[worst], "f1": float(scores.f1[worst])},
        "per_class": {
            name: {
                "accuracy": _defined(scores.recall[index]),
                "precision": _defined(scores.precision[index]),
                "recall": _defined(scores.recall[index]),
                "f1": _defined(scores.f1[index]),
                "support": int(scores.support[index]),
            }
            for index, name in enumerate(class_names)
        },
        "confusion_matrix": matrix.tolist(),
        "top_confusions": [
            {"true": class_names[true], "predicted": class_names[guess], "count": count}
            for true, guess, count in top_confusions(matrix, num_confusions)
        ],
    }
    if logits.shape[1] > 5:
        summary["top_5_accuracy"] = _defined(top_k_accuracy(logits, labels, 5))
    return summary


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
