"""The report of a checkpoint on a split: its figures, and what it shows where."""

import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int64
from matplotlib.figure import Figure
from scipy.special import softmax

from vit_jax.analysis import page
from vit_jax.analysis.scored import NUM_LISTED, Scored
from vit_jax.figures import calibration as calibration_figures
from vit_jax.figures import confusion, images, per_class
from vit_jax.figures import roc as roc_figures
from vit_jax.metrics import calibration, classification, confusions, human, roc
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import Run
from vit_jax.training import curves as training_curves

NUM_SAMPLES = 16

_OPTIONAL_FIGURES = {"misclassified", "confident_mistakes", "disagreements_with_people"}


def is_optional(name: str) -> bool:
    """Whether a figure is not drawn for every model, or not in every report."""
    is_gallery = name.startswith("confusion_") and name != "confusion_matrix"
    return is_gallery or name in _OPTIONAL_FIGURES


def report_folder(folder: RunFolder, step: int, split: str) -> pathlib.Path:
    """Where figures and tables of a checkpoint's split go.

    It is the run's own folder for the best checkpoint on the test split, which the run
    is judged by, and a folder below it for any other.
    """
    if split == "test" and step == folder.read_results().get("best_step"):
        return folder.path
    return folder.path / "reports" / f"{split}-{step}"


def write_report(
    run: Run,
    scored: dict[str, Scored],
    scores: dict[str, dict[str, Any]],
    counts: np.ndarray | None,
    confusions: Sequence[tuple[int, int]],
) -> None:
    """Writes the report of the first split in `scored`; another one is subset_test.

    Args:
      run: the report is of its checkpoint.
      scored: by the name of the split.
      scores: the numbers of these splits, as results.json holds them.
      counts: CIFAR-10H counts for the first split, if there are any.
      confusions: pairs of a true and a predicted class whose images are shown.
    """
    split, *others = scored
    records = RunFolder(run.workdir).read_metrics()
    figures = training_curves.draw_history(records, run.workdir.name)
    figures |= draw_figures(scored[split], scores[split], split)
    if others:
        figures |= draw_subset_test(*scored.values())
    if counts is not None:
        figures["disagreements_with_people"] = draw_people(scored[split], counts)
    for true, predicted in confusions:
        gallery = draw_confusion(scored[split], true, predicted)
        if not gallery:
            names = run.class_names
            print(f"no image of {names[true]} is predicted as {names[predicted]}")
        figures |= gallery
    folder = report_folder(RunFolder(run.workdir), run.step, split)
    for path in (folder / "figures").glob("*.png"):
        # Figures of an earlier report that this one does not replace.
        if is_optional(path.stem) and path.stem not in figures:
            path.unlink()
    path = page.write_page(
        folder,
        title=f"{run.workdir.name}: {split} split, step {run.step:,}",
        scores={**scores[split], **{name: scores[name] for name in others}},
        config=run.config.to_dict(),
        figures=figures,
        tables=page.make_tables(records, scored[split]),
    )
    print(f"report: {path}")


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
    matrix = confusions.confusion_matrix(logits, labels)
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
            confusions.top_confusions(matrix),
            confusions.top_confusions(matrix, both_ways=True),
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
    accuracy = {
        name: classification.per_class_accuracy(one.logits, one.dataset.labels)
        for name, one in (("test", test), ("subset_test", subset))
    }
    matrix = confusions.confusion_matrix(subset.logits, subset.dataset.labels)
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
    return images.disagreements(
        scored.dataset.images[indices],
        scored.dataset.labels[indices],
        softmax(scored.logits[indices].astype(np.float64), axis=1),
        counts[indices] / counts[indices].sum(axis=1, keepdims=True),
        scored.dataset.class_names,
    )
