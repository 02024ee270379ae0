"""Runs and scores made by hand, and readers of what is written about them."""

import html.parser

import numpy as np

from vit_jax import data
from vit_jax.analysis import compare, evaluate
from vit_jax.analysis.entries import Entry
from vit_jax.analysis.scored import Scored
from vit_jax.training import scoring


def cells_of(line):
    return [cell.strip() for cell in line.strip("| ").split(" | ")]


def table_below(markdown, heading):
    """Rows of the first table below a heading, each by its columns' names."""
    lines = markdown.split(heading + "\n\n")[1].splitlines()
    head, _, *rows = lines[: lines.index("")]
    return [dict(zip(cells_of(head), cells_of(r), strict=True)) for r in rows]


def make_record(split, epoch, **values):
    """A line of metrics.jsonl of a run with 10 steps and 2 seconds an epoch."""
    times = {"step": round(10 * epoch), "epoch": epoch, "seconds": 2.0 * epoch}
    return {"split": split, **times, **values}


_TIMED = {"lower_quartile": 1.0, "upper_quartile": 1.25}
LATENCY = {
    "device": "cpu",
    "dtype": "float32",
    "num_cores": 2,
    "other_cores": 0.5,
    "batch_1": _TIMED,
    "batch_128": _TIMED,
}


def make_entry(
    name, *, wrong=(), recipe="r", seed=0, selected_on="val", worst="x", **numbers
):
    """A run on ten images of two classes, wrong where `wrong` says."""
    labels = np.arange(10, dtype=np.int32) % 2
    images = np.zeros((10, 2, 2, 1), np.uint8)
    predicted = np.where(np.isin(np.arange(10), wrong), 1 - labels, labels)
    return Entry(
        name=name,
        model="vit",
        seed=seed,
        selected_on=selected_on,
        recipe=recipe,
        records=[
            make_record("train", 1, loss=1.5, accuracy=0.4),
            make_record("val", 1, loss=1.2, accuracy=0.5),
            make_record("train", 2, loss=None, accuracy=0.6),
            make_record("val", 2, loss=1.1, accuracy=0.7),
        ],
        scored=Scored(
            data.Dataset(images, labels, ("x", "y")),
            np.eye(2, dtype=np.float32)[predicted],
        ),
        worst_class=worst,
        goal=0.85,
        latency=LATENCY,
        numbers=dict.fromkeys(compare.COLUMNS) | numbers,
    )


BOTH_TEST_SETS = {"accuracy_on_both_test_sets", "subset_test_confusion_matrix"}
FIGURES = {
    "training_curves",
    "confusion_matrix",
    "per_class_accuracy",
    "confidence_by_class",
    "precision_recall_f1",
    "roc",
    "reliability",
    "top_confusions",
    "sample_predictions",
    "misclassified",
    "confident_mistakes",
}


class Page(html.parser.HTMLParser):
    """What a page shows; `elements` are its tags with the names of their attributes."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.sources, self.images, self.text = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, *(key for key, _ in attrs)))
        self.sources += [value for key, value in attrs if key in ("src", "href")]
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_data(self, text):
        self.text += f"{text}\n"


def all_scores(scored, val=None, train=None):
    scores = scoring.describe_scores(scored.logits, scored.dataset)
    return scores | evaluate.compare_splits(scored, val or scored, train or scored)


def make_scored(wrong=(), num_examples=12, scale=5.0):
    """Three classes in turn; the examples in `wrong` are taken for the next class."""
    labels = np.arange(num_examples, dtype=np.int32) % 3
    predicted = (
        np.where(np.isin(np.arange(num_examples), wrong), labels + 1, labels) % 3
    )
    images = np.zeros((num_examples, 4, 4, 3), np.uint8)
    logits = scale * np.eye(3, dtype=np.float32)[predicted]
    return Scored(data.Dataset(images, labels, ("a", "b & <c>", "d")), logits)
