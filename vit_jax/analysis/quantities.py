"""The numbers of a report for people: named, explained, and in percent."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vit_jax.analysis import latency
from vit_jax.analysis.tables import markdown_table
from vit_jax.figures import style
from vit_jax.metrics import classification

Row = tuple[str, str, str]


def percent(value: float | None, digits: int = 2) -> str:
    """0.5 as "50.00%"; a dash for None."""
    return "–" if value is None else f"{value:.{digits}%}"


def number(value: float | None, form: str = ".4f") -> str:
    """A number; a dash for None."""
    return "–" if value is None else f"{value:{form}}"


def describe(scores: Mapping[str, Any]) -> list[Row]:
    """(name, value, explanation) of the numbers of a split that results.json holds."""
    rows = [
        *_quality(scores),
        *_other_splits(scores),
        *_calibration(scores.get("calibration")),
        *_cost(scores),
        *_people(scores.get("people")),
    ]
    if subset := scores.get("subset_test"):
        rows += [
            (f"{name}, second test split", *row) for name, *row in _quality(subset)
        ]
    return rows


def _quality(scores: Mapping[str, Any]) -> list[Row]:
    accuracy, count = scores["accuracy"], scores["num_examples"]
    interval = ""
    if accuracy is not None:
        ends = classification.accuracy_interval(accuracy, count)
        interval = " ({:.2%} to {:.2%})".format(*ends)
    majority, worst = scores["majority_class"], scores["worst_class_by_accuracy"]
    rows = [
        (
            "Accuracy",
            percent(accuracy) + interval,
            f"correct predictions among {count:,} images, with a 95% interval",
        ),
        (
            "Balanced accuracy",
            percent(scores["balanced_accuracy"]),
            "mean of the accuracies of the classes, each of which counts the same",
        ),
        (
            "Largest class alone",
            percent(majority["accuracy"]),
            f"accuracy of always answering {majority['name']}",
        ),
        (
            "Worst class",
            f"{worst['name']} ({percent(worst['accuracy'])})",
            "the class with the lowest accuracy",
        ),
        (
            "Mean F1",
            percent(scores["macro"]["f1"]),
            "precision and recall in one number",
        ),
        (
            "Mean AUC",
            percent(scores["macro"]["auc"]),
            "probability that an image of a class has a higher score for this class "
            "than an image of another class",
        ),
        (
            "Loss",
            f"{number(scores['loss'])} nats",
            "cross-entropy: how surprising the true classes are to the model",
        ),
    ]
    if "top_5_accuracy" in scores:
        meaning = "true class among the five most probable ones"
        rows.insert(1, ("Top-5 accuracy", percent(scores["top_5_accuracy"]), meaning))
    if "mirrored" in scores:
        meaning = "mean of the probabilities of each image and its mirror image"
        rows.append(
            ("With mirroring", percent(scores["mirrored"]["accuracy"]), meaning)
        )
    return rows


def _other_splits(scores: Mapping[str, Any]) -> list[Row]:
    if "train_accuracy" not in scores:
        return []
    gap = scores["generalization_gap"]
    return [
        (
            "Training accuracy",
            percent(scores["train_accuracy"]),
            "on the training images as they are, without augmentation",
        ),
        (
            "Generalisation gap",
            "–" if gap is None else f"{100 * gap:+.2f} points",
            "training accuracy minus the accuracy above; large: overfitted",
        ),
    ]


def _calibration(found: Mapping[str, Any] | None) -> list[Row]:
    if not found:
        return []
    before, after = found["before"], found["after"]
    rows = [
        (
            "Calibration error",
            percent(before["ece"]),
            "mean distance of confidence and accuracy over 15 bins of confidence (ECE)",
        ),
        (
            "Brier score",
            number(before["brier_score"]),
            "squared error, 0 to 2; 0 is best",
        ),
    ]
    if found["declined"]:
        return [*rows, ("Temperature", "none", f"not fitted: {found['declined']}")]
    where = (
        "on this very split, so it is optimistic" if found["fitted_on_itself"] else ""
    )
    fitted_on = "test" if found.get("fitted_on") == "test" else "validation"
    return [
        *rows,
        (
            "Temperature",
            number(after["temperature"], ".3f"),
            f"divides the logits; fitted {where or f'on the {fitted_on} split'}",
        ),
        ("Calibration error with it", percent(after["ece"]), "the same, calibrated"),
        (
            "Loss with it",
            f"{number(after['nll'])} nats",
            f"without it {number(before['nll'])}",
        ),
    ]


def _cost(scores: Mapping[str, Any]) -> list[Row]:
    rows = []
    if "num_params" in scores:
        rows.append(("Parameters", f"{scores['num_params']:,}", "learned parameters"))
    for index, stage in enumerate(scores.get("stages", ())):
        steps = f"{stage['first_step']:,} to {stage['last_step']:,}"
        meaning = f"parameters trained in steps {steps}"
        count = f"{stage['num_trainable_params']:,}"
        rows.append((f"Trained in stage {index + 1}", count, meaning))
    if "flops" in scores:
        meaning = "operations of one forward pass of one image, in billions"
        rows.append(("GFLOPs", f"{scores['flops'] / 1e9:.3g}", meaning))
    if "latency" in scores:
        load = latency.load_text(scores["latency"])
        rows += [
            (f"Inference, {how}", value, f"{spread}; {load}")
            for how, value, spread in latency.to_rows(scores["latency"])
        ]
    return rows


def _people(found: Mapping[str, Any] | None) -> list[Row]:
    if not found:
        return []
    return [
        (
            "Cross-entropy with people",
            f"{number(found['cross_entropy'])} nats",
            "of the model's probabilities to people's choices",
        ),
        (
            "Entropy of people",
            f"{number(found['entropy_of_people'])} nats",
            "how far people disagree, and the lower bound of the number above",
        ),
        (
            "Correlation of confusions",
            number(found["confusion_correlation"]),
            "of the model's with people's",
        ),
        (
            "Accuracy of people",
            percent(found["accuracy_of_people"]),
            "choices of people that are the dataset's label, mean over the images",
        ),
        (
            "Accuracy of the majority",
            percent(found["accuracy_of_majority"]),
            "images whose most frequent choice of people is the dataset's label",
        ),
    ]


def describe_classes(
    scores: Mapping[str, Any],
) -> tuple[Sequence[str], list[list[str]]]:
    """Head and rows of the table of classes."""
    columns = {
        "accuracy": "accuracy",
        "precision": "precision",
        "f1": "F1",
        "auc": "AUC",
        "confidence_right": "confidence if right",
        "confidence_wrong": "confidence if wrong",
    }
    rows = [
        [name, f"{one['support']:,}", *(percent(one.get(key), 1) for key in columns)]
        for name, one in scores["per_class"].items()
    ]
    return ("class", "images", *columns.values()), rows


def to_text(scores: Mapping[str, Any], split: str) -> str:
    """What `describe` and `describe_classes` give, as text for a terminal.

    The classes are those that a figure would show, see `style.shown_classes`.
    """
    lines = [f"{name}: {value}; {meaning}" for name, value, meaning in describe(scores)]
    accuracies = [one["accuracy"] for one in scores["per_class"].values()]
    shown, note = style.shown_classes("accuracy", np.array(accuracies, float))
    if note:
        lines.append(f"{note.strip()}; results.json in the run's folder has all")
    head, rows = describe_classes(scores)
    table = markdown_table(head, [rows[index] for index in shown])
    return "\n".join((f"{split} split", *lines, table))
