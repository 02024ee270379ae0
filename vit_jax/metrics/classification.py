"""Accuracy, loss, precision, recall and F1 of a split, and of each of its classes.

In all functions `logits` [n, k] are unnormalised scores, `labels` [n] are classes 0 to
k-1, the predicted class is the first of the largest logits, and fractions are 0 to 1.
An example with a logit that is not finite has no predicted class (-1). It never counts
as correct, and the accuracy and loss of its split are NaN, so that the fault is seen.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Int64
from scipy.special import log_softmax, softmax


def predicted_classes(logits: Float[np.ndarray, "n k"]) -> Int64[np.ndarray, " n"]:
    """The class with the largest logit; -1 where a logit is NaN or infinite."""
    return np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), -1)


def accuracy(logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]) -> float:
    """Fraction of examples whose predicted class is the label; NaN if not finite."""
    return top_k_accuracy(logits, labels, 1)


def accuracy_interval(accuracy: float, num_examples: int) -> tuple[float, float]:
    """The 95% interval of Wilson (1927) for the accuracy on other images of this kind.

    It is of one trained model, and does not hold the variation between trainings.
    """
    # It takes as long to import as JAX, and most of this module does without.
    import scipy.stats

    right = scipy.stats.binomtest(round(accuracy * num_examples), num_examples)
    interval = right.proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def top_k_accuracy(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"], top: int
) -> float:
    """Fraction of examples whose label is among the `top` largest logits.

    Of equal logits the lower class comes first, as in the predicted class. So a model
    that gives every class the same logit scores no better than guessing.
    """
    if not np.isfinite(logits).all():
        return math.nan
    best = np.argsort(-logits, axis=1, kind="stable")[:, :top]
    return float((best == labels[:, None]).any(axis=1).mean())


def cross_entropy(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]
) -> float:
    """Mean negative log-likelihood of the labels, in nats; NaN if not finite.

    It is computed in float64 from log-probabilities, so that the loss of a confident
    mistake is finite.
    """
    if not np.isfinite(logits).all():
        return math.nan
    log_probs = log_softmax(logits.astype(np.float64), axis=1)
    return float(-log_probs[np.arange(len(labels)), labels].mean())


def confidence(logits: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    """Probability of the predicted class; NaN if there is none."""
    finite = predicted_classes(logits) >= 0
    values = np.full(len(logits), np.nan)
    values[finite] = softmax(logits[finite].astype(np.float64), axis=1).max(axis=1)
    return values


def most_confident_mistakes(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"], num_examples: int
) -> Int64[np.ndarray, " m"]:
    """Indices of the wrong predictions with the highest confidence, highest first.

    m is `num_examples`, or the number of mistakes if that is less.
    """
    predicted = predicted_classes(logits)
    wrong = np.flatnonzero((predicted != labels) & (predicted >= 0))
    return by_confidence(logits, wrong)[:num_examples]


def by_confidence(
    logits: Float[np.ndarray, "n k"], indices: Int64[np.ndarray, " m"]
) -> Int64[np.ndarray, " m"]:
    """The indices in the order of falling confidence."""
    return indices[np.argsort(-confidence(logits[indices]), kind="stable")]


@dataclasses.dataclass(frozen=True)
class PerClass:
    """Scores of each class; NaN if the split has no example of the class.

    A class that is never predicted has precision 0.

    Attributes:
      support: number of examples of each class.
      predicted: number of examples that are predicted as each class.
      right: number of examples of each class that are predicted rightly.
    """

    support: Int[np.ndarray, " k"]
    predicted: Int[np.ndarray, " k"]
    right: Int[np.ndarray, " k"]

    @property
    def precision(self) -> Float[np.ndarray, " k"]:
        """Fraction of the predictions of a class that are right."""
        return self._right_of(self.predicted)

    @property
    def recall(self) -> Float[np.ndarray, " k"]:
        """Fraction of the examples of a class that are predicted rightly."""
        return self._right_of(self.support)

    @property
    def f1(self) -> Float[np.ndarray, " k"]:
        """Harmonic mean of precision and recall."""
        return 2 * self._right_of(self.support + self.predicted)

    def intervals(self) -> dict[str, Float[np.ndarray, "k 2"]]:
        """Ends of the 95% intervals of "precision", "recall" and "f1"; else NaN.

        Precision and recall are fractions, of the predictions and of the examples of a
        class. F1 = 2 J / (1 + J) grows with Jaccard's index J, which is a fraction of
        the examples that are of the class or are predicted so, and has its interval.
        """
        jaccard = self._intervals(self.support + self.predicted - self.right)
        return {
            "precision": self._intervals(self.predicted),
            "recall": self._intervals(self.support),
            "f1": 2 * jaccard / (1 + jaccard),
        }

    def _right_of(self, counts: Int[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        return np.where(self.support > 0, self.right / np.maximum(counts, 1), np.nan)

    def _intervals(self, counts: Int[np.ndarray, " k"]) -> Float[np.ndarray, "k 2"]:
        """`accuracy_interval` of the right ones among these; NaN where there are none,
        and where the class has no example."""
        fractions = self._right_of(counts).tolist()
        return np.array(
            [
                accuracy_interval(fraction, count)
                if count and not math.isnan(fraction)
                else (math.nan, math.nan)
                for fraction, count in zip(fractions, counts.tolist(), strict=True)
            ]
        )


def per_class(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]
) -> PerClass:
    """Precision, recall, F1 score and number of examples of each class."""
    predicted = predicted_classes(logits)
    some = (labels, predicted[predicted >= 0], labels[predicted == labels])
    return PerClass(*(np.bincount(x, minlength=logits.shape[1]) for x in some))


def summarize(
    logits: Float[np.ndarray, "n k"],
    labels: Int[np.ndarray, " n"],
    class_names: tuple[str, ...],
) -> dict[str, Any]:
    """All of the above in values that JSON has: undefined numbers are None.

    Returns:
      num_examples, num_without_prediction, accuracy, balanced_accuracy (mean over the
      classes), majority_class (name, accuracy: of always answering the class with the
      most images), cross_entropy, top_5_accuracy (of more than five classes), macro
      (precision, recall, f1: unweighted means over the classes), worst_class (name, f1:
      the first of equal ones), worst_class_by_accuracy (name, accuracy), and per_class
      (name -> accuracy, precision, recall, f1, support). Classes without examples are
      left out of means and worst classes. An example without a predicted class counts
      as wrong in the numbers of classes and their means.
    """
    scores = per_class(logits, labels)
    worst, least = np.nanargmin(scores.f1), np.nanargmin(scores.recall)
    largest = int(scores.support.argmax())
    values = {
        "accuracy": accuracy(logits, labels),
        "balanced_accuracy": float(np.nanmean(scores.recall)),
        "cross_entropy": cross_entropy(logits, labels),
    }
    if logits.shape[1] > 5:
        values["top_5_accuracy"] = top_k_accuracy(logits, labels, 5)
    rows = zip(scores.recall, scores.precision, scores.recall, scores.f1, strict=True)
    keys = ("accuracy", "precision", "recall", "f1")
    return {
        "num_examples": len(labels),
        "num_without_prediction": int((predicted_classes(logits) < 0).sum()),
        **defined(values),
        "majority_class": {
            "name": class_names[largest],
            "accuracy": float(scores.support[largest] / len(labels)),
        },
        "macro": {
            name: float(np.nanmean(getattr(scores, name)))
            for name in ("precision", "recall", "f1")
        },
        "worst_class": {"name": class_names[worst], "f1": float(scores.f1[worst])},
        "worst_class_by_accuracy": {
            "name": class_names[least],
            "accuracy": float(scores.recall[least]),
        },
        "per_class": {
            name: defined(dict(zip(keys, row, strict=True))) | {"support": int(support)}
            for name, row, support in zip(
                class_names, rows, scores.support, strict=True
            )
        },
    }


def defined(values: Mapping[str, float]) -> dict[str, float | None]:
    """The numbers as JSON has them: NaN becomes None."""
    return {key: None if math.isnan(x) else float(x) for key, x in values.items()}
