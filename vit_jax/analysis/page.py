"""A report as files: CSV tables, PNG figures, and one page that contains all."""

import base64
import json
import pathlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import jinja2
import numpy as np
from matplotlib.figure import Figure

from vit_jax.analysis import quantities
from vit_jax.analysis.scored import Scored
from vit_jax.analysis.tables import write_rows
from vit_jax.config import flatten
from vit_jax.figures import style
from vit_jax.files import as_json, make_folder, write_file
from vit_jax.metrics import calibration, roc

Rows = Iterable[Iterable[Any]]

# What a reader sees in each figure, by the name of its file, in the order of the page:
# what happened, then the errors, then confidence.
CAPTIONS = {
    "training_curves": (
        "Loss and accuracy while the model learned. Train is measured on augmented "
        "images, so that its accuracy may be lower, and its loss higher, than those of "
        'the other curve. Of mixed images, "weighted" counts a prediction by the '
        "fraction of the predicted class in the mixture. The dotted line marks the "
        "checkpoint that was scored, and thin ones the beginning of each later stage."
    ),
    "confusion_matrix": (
        "Each row is a true class and adds up to 100%. The diagonal is right; a "
        "dark cell beside it is a frequent mistake."
    ),
    "top_confusions": (
        "The pairs of classes that make the most mistakes, and their part of all "
        "mistakes."
    ),
    "per_class_accuracy": "Bars whose intervals overlap widely may well be equal.",
    "precision_recall_f1": (
        "Precision: how many predictions of a class are right. Recall: how many of "
        "its images are found. F1 is between them. The error bars are 95% intervals."
    ),
    "confident_mistakes": (
        "The mistakes that the model is surest of. Look for wrong labels, for two "
        "things in one image, and for misleading backgrounds."
    ),
    "misclassified": "Some of all mistakes, drawn at random.",
    "sample_predictions": "Some images, drawn at random.",
    "reliability": (
        "Bars on the diagonal mean that of the images with 70% confidence 70% are "
        "right. Below it (orange gaps) the model is too sure. The lowest row counts "
        "images."
    ),
    "confidence_by_class": (
        "A wrong answer should come with less confidence than a right one. Where "
        "both bars are high, confidence warns of nothing."
    ),
    "roc": (
        "How many images of a class are found for how many false alarms, as the "
        "threshold moves. Nearer to the upper left corner is better."
    ),
    "accuracy_on_both_test_sets": (
        "Two test splits; the second one was taken from the training images of the "
        "dataset."
    ),
    "subset_test_confusion_matrix": "The second test split.",
    "disagreements_with_people": "The images on which model and people differ most.",
}


def write_page(
    folder: pathlib.Path,
    *,
    title: str,
    summary: str,
    scores: Mapping[str, Any],
    config: Mapping[str, Any],
    environment: Mapping[str, Any],
    figures: Mapping[str, Figure],
    tables: Mapping[str, Rows],
) -> pathlib.Path:
    """Writes the CSV files, figures/*.png and report.html; returns the page's path.

    The page needs no other file.

    Args:
      summary: the result, as a sentence.
      scores: of `scoring.describe_scores`, and whatever else is to be shown.
      environment: of environment.json.
      figures: by the names of their files.
      tables: further CSV files by name, each with its head as the first row.
    """
    make_folder(folder, "--workdir")
    for name, rows in {**_score_tables(scores), **tables}.items():
        write_rows(folder / f"{name}.csv", rows)
    pictures = [
        _render_picture(name, figures[name], folder / "figures" / f"{name}.png")
        for name in in_order(figures)
    ]
    versions = {
        name: environment[name]
        for name in ("vit_jax", "python", "jax", "flax", "device", "started")
        if name in environment
    }
    groups = {"run": {k: v for k, v in config.items() if not hasattr(v, "items")}}
    groups |= {k: v for k, v in config.items() if hasattr(v, "items")}
    text = _TEMPLATES.get_template("page.html").render(
        title=title,
        summary=summary,
        date=time.strftime("%d %B %Y, %H:%M UTC", time.gmtime()),
        versions=versions,
        quantities=quantities.describe(scores),
        classes=quantities.describe_classes(scores),
        pictures=pictures,
        groups={
            name: [(key, json.dumps(value)) for key, value in group.items()]
            for name, group in groups.items()
        },
    )
    page = folder / "report.html"
    write_file(page, text)
    return page


def caption(name: str) -> str:
    """The caption of a report's figure; "" for figures that are not of a report.

    Galleries of one confusion have one in common.
    """
    if name.startswith("confusion_") and name not in CAPTIONS:
        return "All images of one confusion, or the most confident of them."
    return CAPTIONS.get(name, "")


def in_order(names: Collection[str]) -> list[str]:
    """Names of figures in the order of the page; others come last."""
    return sorted(names, key=[*CAPTIONS, *names].index)


def _render_picture(name: str, figure: Figure, path: pathlib.Path) -> dict[str, Any]:
    """Saves a figure; its title, caption and width, and the PNG as a data URL.

    A page has 96 pixels per inch on any screen. This width shows the figure in its own
    size in inches, in which its text is legible.
    """
    content = base64.b64encode(style.save(figure, path).read_bytes()).decode()
    return {
        "title": figure.get_suptitle(),
        "caption": caption(name),
        "width": round(96 * figure.get_figwidth()),
        "source": f"data:image/png;base64,{content}",
    }


def _score_tables(scores: Mapping[str, Any]) -> dict[str, Rows]:
    names = list(scores["per_class"])
    columns = list(scores["per_class"][names[0]])
    # ("calibration.before.ece", 0.1) and so on: all but the lists and classes.
    values = flatten({k: v for k, v in scores.items() if k != "per_class"})
    numbers = [(key, value) for key, value in values if not isinstance(value, list)]
    return {
        "summary": [("quantity", "value"), *numbers],
        "per_class": [
            ("class", *columns),
            *((name, *scores["per_class"][name].values()) for name in names),
        ],
        "confusion": [
            ("true class / predicted class", *names),
            *(
                (n, *row)
                for n, row in zip(names, scores["confusion_matrix"], strict=True)
            ),
        ],
        "top_confusions": [
            ("true class", "predicted class", "images", "fraction of all errors"),
            *(row.values() for row in scores["top_confusions"]),
        ],
        "top_confused_pairs": [
            ("class", "other class", "images", "fraction of all errors"),
            *(row.values() for row in scores["top_confused_pairs"]),
        ],
    }


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
    rates = []
    for name, curve in zip(scored.dataset.class_names, curves, strict=True):
        both = curve.false_positive_rate, curve.true_positive_rate
        rates += [(name, *point) for point in np.transpose(both).tolist()]
    bins = calibration.reliability_bins(scored.logits, scored.dataset.labels)
    columns = (bins.edges[:-1], bins.edges[1:], bins.counts)
    columns += (bins.confidence, bins.accuracy)
    keys = list(dict.fromkeys(key for record in records for key in record))
    return {
        "history": [keys, *([record.get(key) for key in keys] for record in records)],
        "roc": [("class", "false_positive_rate", "true_positive_rate"), *rates],
        "reliability": [
            ("above", "up_to", "images", "mean_confidence", "accuracy"),
            *zip(*(as_json(column.tolist()) for column in columns), strict=True),
        ],
    }


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)
