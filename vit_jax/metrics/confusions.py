"""Which classes are predicted as which others.

Arguments are as in `classification`.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int, Int64

from vit_jax.metrics import classification


def confusion_matrix(
    logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]
) -> Int64[np.ndarray, "k k"]:
    """Number of examples of each class (row) predicted as each class (column).

    Examples without a predicted class are in no cell.
    """
    k, predicted = logits.shape[1], classification.predicted_classes(logits)
    known = predicted >= 0
    cells = labels[known] * k + predicted[known]
    return np.bincount(cells, minlength=k * k).reshape(k, k)


def top_confusions(
    matrix: Int[np.ndarray, "k k"], num_pairs: int = 10, *, both_ways: bool = False
) -> list[tuple[int, int, int, float]]:
    """The most frequent mistakes of a confusion matrix, the most frequent first.

    Pairs that are never confused are left out; of equally frequent pairs the lower
    classes come first.

    Args:
      matrix: true classes in rows, predicted classes in columns.
      num_pairs: the largest number of pairs to return.
      both_ways: whether to add "a predicted as b" and "b predicted as a" up.

    Returns:
      (true class, predicted class, number of examples, this number divided by that of
      all wrong predictions) of each pair; with `both_ways` the lower class is first.
    """
    mistakes = matrix - np.diag(np.diag(matrix))
    num_errors = mistakes.sum()
    if both_ways:
        mistakes = np.triu(mistakes + mistakes.T)
    order = np.argsort(-mistakes, axis=None, kind="stable")[:num_pairs]
    rows, columns = np.unravel_index(order, matrix.shape)
    return [
        (int(row), int(column), int(count), float(count / num_errors))
        for row, column in zip(rows, columns, strict=True)
        if (count := mistakes[row, column])
    ]


def examples_of_confusion(
    logits: Float[np.ndarray, "n k"],
    labels: Int[np.ndarray, " n"],
    true: int,
    predicted: int,
) -> Int64[np.ndarray, " m"]:
    """Indices of the examples of class `true` that are predicted as `predicted`.

    They are sorted by falling confidence.
    """
    chosen = (labels == true) & (classification.predicted_classes(logits) == predicted)
    return classification.by_confidence(logits, np.flatnonzero(chosen))


def summarize(
    logits: Float[np.ndarray, "n k"],
    labels: Int[np.ndarray, " n"],
    class_names: tuple[str, ...],
) -> dict[str, Any]:
    """The confusion matrix and the ten most frequent mistakes, JSON-ready.

    Returns:
      confusion_matrix; top_confusions (true, predicted, count, fraction_of_errors);
      top_confused_pairs, which counts both directions together (first, second, count,
      fraction_of_errors).
    """
    matrix = confusion_matrix(logits, labels)

    def named(first: str, second: str, both_ways: bool) -> list[dict[str, Any]]:
        keys = (first, second, "count", "fraction_of_errors")
        return [
            dict(zip(keys, (class_names[a], class_names[b], *numbers), strict=True))
            for a, b, *numbers in top_confusions(matrix, both_ways=both_ways)
        ]

    return {
        "confusion_matrix": matrix.tolist(),
        "top_confusions": named("true", "predicted", both_ways=False),
        "top_confused_pairs": named("first", "second", both_ways=True),
    }
