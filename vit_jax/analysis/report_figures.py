"""The figures of a report, from the logits of a split."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int64
from matplotlib.figure import Figure
from scipy.special import softmax

from vit_jax.analysis.scored import NUM_LISTED, Scored
from vit_jax.figures import calibration as calibration_figures
from vit_jax.figures import confusion, images, per_class
from vit_jax.figures import roc as roc_figures
from vit_jax.metrics import calibration, classification, confusions, human, roc

NUM_SAMPLES = 16
# Mean area under the ROC curves from which they cannot be told from perfect ones.
_VISIBLE_AUC = 0.999


def draw_figures(
    scored: Scored, scores: Mapping[str, Any], name: str
) -> dict[str, Figure]:
    """File name -> figure of everything that the logits of a split show.

    Args:
      scores: of `scoring.describe_scores` and `compare_splits`.
      name: of the split, for the titles.
    """
    logits, labels = scored.logits, scored.dataset.labels
    names = scored.dataset.class_names
    quality = classification.per_class(logits, labels)
    intervals = quality.intervals()
    matrix = confusions.confusion_matrix(logits, labels)
    right, wrong = calibration.mean_confidence_by_class(logits, labels)
    confidence = {"right answers": right, "wrong answers": wrong}
    figures = {
        "confusion_matrix": confusion.confusion_matrix(
            matrix, names, title=f"Confusion matrix ({name})"
        ),
        "per_class_accuracy": per_class.accuracy_bars(
            quality.recall,
            names,
            intervals=intervals["recall"],
            title=f"Accuracy by class, 95% intervals ({name})",
        ),
        "precision_recall_f1": per_class.grouped_bars(
            {
                "precision": quality.precision,
                "recall": quality.recall,
                "F1": quality.f1,
            },
            names,
            by=("F1", quality.f1),
            intervals=list(intervals.values()),
            title="Precision, recall and F1 by class, 95% intervals",
            unit="score (%)",
        ),
        "reliability": draw_reliability(scored, scores["calibration"], name),
    }
    # A model without a mistake has no wrong answers to draw.
    known = {key: mean for key, mean in confidence.items() if np.isfinite(mean).any()}
    if known:
        figures["confidence_by_class"] = per_class.grouped_bars(
            known,
            names,
            by=("accuracy", quality.recall),
            title=f"Mean confidence by true class ({name})",
            unit="mean confidence (%)",
        )
    curves = roc.one_vs_rest(logits, labels)
    # Curves of a nearly perfect model run along the frame and show nothing.
    if (area := roc.macro_auc(curves)) < _VISIBLE_AUC:
        figures["roc"] = roc_figures.roc_curves(curves, names, area)
    # Confusions of a single image are left out.
    one_way, both_ways = (
        [x for x in confusions.top_confusions(matrix, both_ways=both) if x[2] > 1]
        for both in (False, True)
    )
    if one_way:
        figures["top_confusions"] = confusion.top_confusions(
            one_way, both_ways, names, int(matrix.sum() - matrix.trace())
        )
    return figures | draw_samples(scored)


def draw_reliability(scored: Scored, found: Mapping[str, Any], name: str) -> Figure:
    """Reliability as trained and, where it was not declined, with the temperature.

    `found` is the "calibration" of `evaluate.compare_splits`.
    """
    logits, labels = scored.logits, scored.dataset.labels
    bins = {"as trained": calibration.reliability_bins(logits, labels)}
    details = [_describe_calibration(found["before"])]
    title = f"Reliability ({name})"
    if found["declined"]:
        title += "\nwithout a temperature"
    else:
        temperature = found["after"]["temperature"] or math.nan
        scaled = logits.astype(np.float64) / temperature
        mark = ""
        if None not in (found["before"]["nll"], found["after"]["nll"]):
            is_worse = found["after"]["nll"] > found["before"]["nll"]
            mark = " ✗ higher NLL" if is_worse else " ✓ lower NLL"
            if found["fitted_on_itself"]:
                mark = " (fitted on this split)"
        bins[f"T = {temperature:.3g}{mark}"] = calibration.reliability_bins(
            scaled, labels
        )
        details.append(_describe_calibration(found["after"]))
    return calibration_figures.reliability_diagrams(bins, details=details, title=title)


def _describe_calibration(numbers: Mapping[str, float | None]) -> str:
    if None in numbers.values():
        return "not finite"
    return (
        "adaptive ECE {adaptive_ece:.2%}, Brier {brier_score:.4f}, NLL {nll:.4f}"
    ).format(**numbers)


def draw_samples(scored: Scored) -> dict[str, Figure]:
    """Samples of all predictions and of the mistakes, and the most confident ones."""
    logits, dataset = scored.logits, scored.dataset
    predicted = classification.predicted_classes(logits)
    known = np.flatnonzero(predicted >= 0)
    wrong = known[predicted[known] != dataset.labels[known]]
    rng = np.random.default_rng(0)
    worst = classification.most_confident_mistakes(logits, dataset.labels, NUM_SAMPLES)
    chosen = {
        "sample_predictions": ("Sample predictions", _draw(rng, known)),
        "misclassified": ("Misclassified samples", _draw(rng, wrong)),
        "confident_mistakes": ("Most confident mistakes", worst),
    }
    if len(wrong) <= NUM_SAMPLES:
        # All of them are among the most confident ones.
        del chosen["misclassified"]
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
    indices = confusions.examples_of_confusion(
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
    quality = {
        name: classification.per_class(one.logits, one.dataset.labels)
        for name, one in (("test", test), ("subset_test", subset))
    }
    matrix = confusions.confusion_matrix(subset.logits, subset.dataset.labels)
    return {
        "accuracy_on_both_test_sets": per_class.grouped_bars(
            {name: one.recall for name, one in quality.items()},
            names,
            intervals=[one.intervals()["recall"] for one in quality.values()],
            by=("accuracy on the test split", quality["test"].recall),
            title="Accuracy by class on both test sets, 95% intervals",
        ),
        "subset_test_confusion_matrix": confusion.confusion_matrix(
            matrix, names, title="Confusion matrix (subset_test)"
        ),
    }


def draw_people(scored: Scored, counts: Int64[np.ndarray, "n k"]) -> Figure:
    """The images on which the model and people (CIFAR-10H counts) differ most."""
    indices, _ = human.largest_differences(scored.logits, counts, NUM_LISTED)
    return images.disagreements(
        scored.dataset.images[indices],
        scored.dataset.labels[indices],
        softmax(scored.logits[indices].astype(np.float64), axis=1),
        counts[indices] / counts[indices].sum(axis=1, keepdims=True),
        scored.dataset.class_names,
    )
