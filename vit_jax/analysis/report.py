"""What a report shows of one run on one split: its figures and long tables."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int64
from matplotlib.figure import Figure
from scipy.special import softmax

from vit_jax.analysis.scored import NUM_LISTED, Scored
from vit_jax.figures import calibration as calibration_figures
from vit_jax.figures import confusion, images, people, per_class
from vit_jax.figures import roc as roc_figures
from vit_jax.metrics import calibration, classification, human, roc
from vit_jax.training.curves import TIMINGS

NUM_SAMPLES = 16

_HISTORY = (
    "step", "epoch", "split", "loss", "accuracy", "weighted_accuracy", "learning_rate",
    *TIMINGS,
)  # fmt: skip
_OPTIONAL_FIGURES = {"misclassified", "confident_mistakes", "disagreements_with_people"}


def is_optional(name: str) -> bool:
    """Whether a figure is not drawn for every model, or not in every report."""
    is_gallery = name.startswith("confusion_") and name != "confusion_matrix"
    return is_gallery or name in _OPTIONAL_FIGURES


def make_tables(
    records: Sequence[Mapping[str, Any]], scored: Scored
) -> dict[str, list[Sequence[Any]]]:
    """The points that curves are drawn through, as rows below a head.

    Returns:
      history: the records of metrics.jsonl; None where one does not have the value;
      roc: of each class against all others;
      reliability: the bins of confidence, without temperature scaling.
    """
    curves = roc.one_vs_rest(scored.logits, scored.dataset.labels)
    names = scored.dataset.class_names
    rates = [
        (name, *point)
        for name, curve in zip(names, curves, strict=True)
        for point in zip(
            curve.false_positive_rate.tolist(),
            curve.true_positive_rate.tolist(),
            strict=True,
        )
    ]
    return {
        "history": [_HISTORY, *([r.get(k) for k in _HISTORY] for r in records)],
        "roc": [("class", "false_positive_rate", "true_positive_rate"), *rates],
        "reliability": _reliability_rows(scored),
    }


def _reliability_rows(scored: Scored) -> list[Sequence[Any]]:
    bins = calibration.reliability_bins(scored.logits, scored.dataset.labels)
    columns = (bins.edges[:-1], bins.edges[1:], bins.counts)
    means = (
        [None if math.isnan(value) else value for value in column.tolist()]
        for column in (bins.confidence, bins.accuracy)
    )
    rows = zip(*(column.tolist() for column in columns), *means, strict=True)
    return [("above", "up_to", "images", "mean_confidence", "accuracy"), *rows]


def draw_figures(
    scored: Scored, scores: Mapping[str, Any], name: str
) -> dict[str, Figure]:
    """File name -> figure of everything that the logits of a split show.

    Args:
      scored: the split.
      scores: of `scoring.describe_scores` and `compare_splits`.
      name: of the split, for the titles.
    """
    logits, labels = scored.logits, scored.dataset.labels
    names = scored.dataset.class_names
    quality = classification.per_class(logits, labels)
    matrix = classification.confusion_matrix(logits, labels)
    curves = roc.one_vs_rest(logits, labels)
    right, wrong = calibration.mean_confidence_by_class(logits, labels)
    temperature = scores["calibration"]["after"]["temperature"] or math.nan
    scaled = logits.astype(np.float64) / temperature
    figures = {
        "confusion_matrix": confusion.confusion_matrix(
            matrix, names, title=f"Confusion matrix ({name})"
        ),
        "per_class_accuracy": per_class.accuracy_bars(
            quality.recall, names, title=f"Accuracy by class ({name})"
        ),
        "precision_recall_f1": per_class.precision_recall_f1_bars(
            quality.precision, quality.recall, quality.f1, names
        ),
        "confidence_by_class": per_class.grouped_bars(
            {"right answers": right, "wrong answers": wrong},
            names,
            title=f"Mean confidence by true class ({name})",
            unit="mean confidence (%)",
        ),
        "roc": roc_figures.roc_curves(curves, names, roc.macro_auc(curves)),
        "reliability": calibration_figures.reliability_diagrams(
            {
                "as trained": calibration.reliability_bins(logits, labels),
                f"T = {temperature:.3g}": calibration.reliability_bins(scaled, labels),
            },
            details=[
                _describe_calibration(scores["calibration"][when])
                for when in ("before", "after")
            ],
            title=f"Reliability before and after temperature scaling ({name})",
        ),
        "top_confusions": confusion.top_confusions(
            classification.top_confusions(matrix),
            classification.top_confusions(matrix, both_ways=True),
            names,
        ),
    }
    return figures | draw_samples(scored)


def _describe_calibration(numbers: Mapping[str, float | None]) -> str:
    if None in numbers.values():
        return "not finite"
    return (
        "adaptive ECE {adaptive_ece:.2%}, Brier {brier_score:.4f}, NLL {nll:.4f}"
    ).format(**numbers)


def draw_samples(scored: Scored) -> dict[str, Figure]:
    """Sample predictions, and of the mistakes, if any, a sample and the surest."""
    logits, dataset = scored.logits, scored.dataset
    predicted = classification.predicted_classes(logits)
    known = np.flatnonzero(predicted >= 0)
    wrong = known[predicted[known] != dataset.labels[known]]
    rng = np.random.default_rng(0)
    surest = classification.most_confident_mistakes(logits, dataset.labels, NUM_SAMPLES)
    chosen = {
        "sample_predictions": ("Sample predictions", _draw(rng, known)),
        "misclassified": ("Misclassified samples", _draw(rng, wrong)),
        "confident_mistakes": ("Most confident mistakes", surest),
    }
    return {
        name: _draw_predictions(scored, indices, title)
        for name, (title, indices) in chosen.items()
        if len(indices)
    }


def _draw_predictions(scored: Scored, indices: np.ndarray, title: str) -> Figure:
    logits, dataset = scored.logits[indices], scored.dataset
    return images.predictions(
        dataset.images[indices],
        dataset.labels[indices],
        classification.predicted_classes(logits),
        classification.confidence(logits),
        dataset.class_names,
        title=title,
    )


def draw_confusion(scored: Scored, true: int, predicted: int) -> dict[str, Figure]:
    """{"confusion_TRUE_PREDICTED": figure} of the images of one confusion.

    They are the `NUM_SAMPLES` with the highest confidence. The figure is missing where
    no image of class `true` is predicted as class `predicted`.
    """
    indices = classification.examples_of_confusion(
        scored.logits, scored.dataset.labels, true, predicted
    )
    if not len(indices):
        return {}
    names = [scored.dataset.class_names[index] for index in (true, predicted)]
    shown = indices[:NUM_SAMPLES]
    title = f"{names[0]} predicted as {names[1]}\n"
    title += f"{len(shown)} of {len(indices)} images, the most confident first"
    # The name of a class may hold what the name of a file may not.
    name = re.sub(r"[^\w.-]", "_", f"confusion_{names[0]}_{names[1]}")
    return {name: _draw_predictions(scored, shown, title)}


def _draw(rng: np.random.Generator, indices: np.ndarray) -> np.ndarray:
    return np.sort(rng.choice(indices, min(NUM_SAMPLES, len(indices)), replace=False))


def draw_subset_test(test: Scored, subset: Scored) -> dict[str, Figure]:
    """Accuracy by class on both test sets, and the confusion matrix of the subset."""
    names = test.dataset.class_names
    accuracy = {
        name: classification.per_class_accuracy(one.logits, one.dataset.labels)
        for name, one in (("test", test), ("subset_test", subset))
    }
    matrix = classification.confusion_matrix(subset.logits, subset.dataset.labels)
    return {
        "accuracy_on_both_test_sets": per_class.grouped_bars(
            accuracy, names, title="Accuracy by class on both test sets"
        ),
        "subset_test_confusion_matrix": confusion.confusion_matrix(
            matrix, names, title="Confusion matrix (subset_test)"
        ),
    }


def draw_people(scored: Scored, counts: Int64[np.ndarray, "n k"]) -> Figure:
    """The images on which the model and people (CIFAR-10H counts) differ most."""
    indices, _ = human.largest_differences(scored.logits, counts, NUM_LISTED)
    return people.disagreements(
        scored.dataset.images[indices],
        scored.dataset.labels[indices],
        softmax(scored.logits[indices].astype(np.float64), axis=1),
        counts[indices] / counts[indices].sum(axis=1, keepdims=True),
        scored.dataset.class_names,
    )
