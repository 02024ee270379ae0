"""How well logits name the class, over a whole split and class by class.

Everywhere: `logits` [n, k] are unnormalised scores, `labels` [n] are classes 0 to k-1,
the predicted class is the first of the largest logits, and shares are 0 to 1. An
example with a logit that is not finite has no predicted class (-1): it is never right,
and accuracy and loss of a split that holds one are NaN, so that a broken model is seen.
"""

import dataclasses
import math
from typing import Any, NamedTuple

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


class Confusion(NamedTuple):
    """How often one class is predicted as another.

    Attributes:
      true, predicted: the two classes; where both directions are counted together,
        the lower class and the higher one.
      count: number of examples.
      fraction_of_errors: `count` divided by the number of all wrong predictions.
    """

    true: int
    predicted: int
    count: int
    fraction_of_errors: float


def top_confusions(
    matrix: Int[np.ndarray, "k k"], num_pairs: int = 10, *, both_ways: bool = False
) -> list[Confusion]:
    """The most frequent mistakes of a confusion matrix, the most frequent first.

    Pairs that are never confused are left out; of equally frequent pairs the lower
    classes come first.

    Args:
      matrix: true classes in rows, predicted classes in columns.
      num_pairs: the largest number of pairs to return.
      both_ways: whether to add "a predicted as b" and "b predicted as a" up.
    """
    mistakes = matrix - np.diag(np.diag(matrix))
    num_errors = mistakes.sum()
    if both_ways:
        mistakes = np.triu(mistakes + mistakes.T)
    order = np.argsort(-mistakes, axis=None, kind="stable")[:num_pairs]
    rows, columns = np.unravel_index(order, matrix.shape)
    return [
        Confusion(int(row), int(column), int(count), float(count / num_errors))
        for row, column in zip(rows, columns, strict=True)
        if (count := mistakes[row, column])
    ]


def confidence(logits: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n"]:
    """Probability of the predicted class; NaN where there is none."""
    finite = predicted_classes(logits) >= 0
    values = np.full(len(logits), np.nan)
    values[finite] = softmax(logits[finite].astype(np.float64), axis=1).max(axis=1)
    return values


def most_confident_mistakes(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, "n"], num_examples: int
) -> Int64[np.ndarray, "m"]:
    """Indices of the wrong predictions held with most confidence, highest first.

    m is `num_examples`, or the number of mistakes if that is less.
    """
    predicted = predicted_classes(logits)
    wrong = np.flatnonzero((predicted != labels) & (predicted >= 0))
    return _by_confidence(logits, wrong)[:num_examples]


def examples_of_confusion(
    logits: Float[np.ndarray, "n k"],
    labels: Int[np.ndarray, "n"],
    true: int,
    predicted: int,
) -> Int64[np.ndarray, "m"]:
    """Indices of the examples of class `true` that are predicted as `predicted`.

    They come in the order of falling confidence.
    """
    chosen = (labels == true) & (predicted_classes(logits) == predicted)
    return _by_confidence(logits, np.flatnonzero(chosen))


def _by_confidence(
    logits: Float[np.ndarray, "n k"], indices: Int64[np.ndarray, "m"]
) -> Int64[np.ndarray, "m"]:
    return indices[np.argsort(-confidence(logits[indices]), kind="stable")]


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


def worst_class(values: Float[np.ndarray, "k"]) -> int:
    """The class with the lowest value, such as recall or F1; the first of equal ones.

    Classes without examples (NaN) are left out.
    """
    return int(np.nanargmin(values))


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
      worst_class_by_accuracy (name, accuracy), per_class (name -> accuracy, precision,
      recall, f1, support), confusion_matrix, top_confusions (true, predicted, count,
      fraction_of_errors), and the same of pairs in both directions together:
      top_confused_pairs (first, second, count, fraction_of_errors).
    """
    scores = per_class(logits, labels)
    matrix = confusion_matrix(logits, labels)
    worst, least = worst_class(scores.f1), worst_class(scores.recall)
    summary = {
        "num_examples": len(labels),
        "num_without_prediction": int((predicted_classes(logits) < 0).sum()),
        "accuracy": _defined(accuracy(logits, labels)),
        "cross_entropy": _defined(cross_entropy(logits, labels)),
        "macro": scores.macro(),
        "worst_class": {"name": class_names[worst], "f1": float(scores.f1[worst])},
        "worst_class_by_accuracy": {
            "name": class_names[least],
            "accuracy": float(scores.recall[least]),
        },
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
            pair._asdict()
            | {"true": class_names[pair.true], "predicted": class_names[pair.predicted]}
            for pair in top_confusions(matrix, num_confusions)
        ],
        "top_confused_pairs": [
            {
                "first": class_names[pair.true],
                "second": class_names[pair.predicted],
                "count": pair.count,
                "fraction_of_errors": pair.fraction_of_errors,
            }
            for pair in top_confusions(matrix, num_confusions, both_ways=True)
        ],
    }
    if logits.shape[1] > 5:
        summary["top_5_accuracy"] = _defined(top_k_accuracy(logits, labels, 5))
    return summary


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
