"""Scores of a split: computed, stored in the run's folder, and printed."""

import argparse
import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import log_softmax

from vit_jax import data
from vit_jax.analysis import quantities, report
from vit_jax.analysis.run_data import load_splits
from vit_jax.analysis.scored import NUM_LISTED, Scored, Scorer
from vit_jax.errors import UserError, did_you_mean, require_known
from vit_jax.metrics import calibration, classification, human, temperature
from vit_jax.metrics.epochs import EpochMeans, epoch_means
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_classifier, stored_scores
from vit_jax.runs.run import Run
from vit_jax.training import scoring


def evaluate(options: argparse.Namespace, moved: Mapping[str, str]) -> None:
    """Scores a split, adds the scores to the run's results.json, and prints them.

    For `moved` see `load_splits`.

    Raises:
      UserError: no such split or class, data or counts that cannot be read, or a
        folder that cannot be written to.
    """
    run, split = load_classifier(options.workdir, options.checkpoint), options.split
    RunFolder(run.workdir).create()
    pairs = [parse_confusion(text, run.class_names) for text in options.confusion]
    _note(f"loading {run.config.data.name} ...")
    run, splits = load_splits(run, moved)
    require_known(split, data.named_splits(splits), "split", "give")
    dataset = splits[split]
    counts = None
    if options.human_labels:
        shape = (len(dataset), dataset.num_classes)
        counts = human.load_counts(options.human_labels, shape)
    _note(f"compiling, and scoring {len(dataset):,} images of the {split} split ...")
    score = Scorer(run, run.config.eval_batch_size)
    scored = {split: score(dataset)}
    if options.report and split == "test" and "subset_test" in splits:
        scored["subset_test"] = score(splits["subset_test"])
    scores = {
        name: scoring.describe_scores(one.logits, one.dataset)
        for name, one in scored.items()
    }
    if options.mirrored:
        scores[split]["mirrored"] = describe_mean(scored[split], score(mirror(dataset)))
    if options.report:
        _note("scoring the other splits and timing the model ...")
        scores[split] |= _scores_of_report(run, scored[split], splits, score, counts)
    _add_to_results(RunFolder(run.workdir), run.step, scores)
    print(quantities.to_text(scores[split], split))
    if options.report:
        _note("drawing the figures ...")
        report.write_report(run, scored, scores, counts, pairs)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse_confusion(text: str, class_names: Sequence[str]) -> tuple[int, int]:
    """(true class, predicted class) of "cat,dog".

    Raises:
      UserError: these are not two different classes of the dataset.
    """
    # The name of a class may have commas, too.
    words = text.split(",")
    for i in range(1, len(words)):
        names = [",".join(part).strip() for part in (words[:i], words[i:])]
        if names[0] != names[1] and set(names) <= set(class_names):
            return class_names.index(names[0]), class_names.index(names[1])
    names = [word.strip() for word in words]
    if len(names) != 2 or names[0] == names[1]:
        raise UserError(
            f"--confusion={text} does not name two different classes; give the true "
            f"and the predicted class, such as --confusion={','.join(class_names[:2])}."
        )
    for name in names:
        if name not in class_names:
            raise UserError(
                f"--confusion={text} names the class {name}, which the dataset does "
                f"not have{did_you_mean(name, class_names)}; give names that stand in "
                "dataset.json in the run's folder."
            )


def _add_to_results(
    folder: RunFolder, step: int, scores: dict[str, dict[str, Any]]
) -> None:
    """Replaces the numbers that were computed, and keeps a report's other numbers."""
    results = folder.read_results()
    place = stored_scores(results, step)
    for split, new in scores.items():
        place[split] = {**(place.get(split) or {}), **new}
    folder.write("results", results)


def _scores_of_report(
    run: Run,
    scored: Scored,
    splits: dict[str, data.Dataset],
    score: Scorer,
    counts: np.ndarray | None,
) -> dict[str, Any]:
    """The scores of a report: from other splits, latency, and people's labels."""
    records = RunFolder(run.workdir).read_metrics()
    others = {
        name: scored if splits[name] is scored.dataset else score(splits[name])
        for name in ("val", "train")
        if name in splits
    }
    scores = {
        **compare_splits(scored, others.get("val"), others["train"], records=records),
        **score.describe_cost(scored.dataset),
    }
    # Without images held out, the split that chose the checkpoint.
    selects_on_test = splits.get("val") is splits["test"]
    if not scores["calibration"]["declined"]:
        scores["calibration"]["fitted_on"] = "test" if selects_on_test else "val"
    if counts is not None:
        scores["people"] = compare_with_people(scored, counts)
    return scores


def train_epochs(records: Sequence[Mapping[str, Any]], key: str) -> EpochMeans:
    """Means by epoch of what the training steps logged as `key` in metrics.jsonl.

    They are of augmented batches, with dropout, while the parameters change. A value
    that was not finite, which the records hold as None, is NaN.
    """
    logged = [record for record in records if record["split"] == "train"]
    columns = ([r.get(k) for r in logged] for k in ("step", "epoch", "seconds", key))
    return epoch_means(*(np.array(column, float) for column in columns))


def logged_train_accuracy(records: Sequence[Mapping[str, Any]]) -> float:
    """The last epoch's value of `train_epochs`; NaN if none was logged."""
    values = train_epochs(records, "accuracy").values
    return float(values[-1]) if len(values) else math.nan


def compare_splits(
    scored: Scored,
    val: Scored | None,
    train: Scored,
    records: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Scores of a split that need the other splits or the log as well, JSON-ready.

    Args:
      scored: the split.
      val, train: the splits to fit the temperature on, and to compare with.
      records: of metrics.jsonl.

    Returns:
      calibration: {"before", "after"} temperature scaling fitted on `val`; "declined":
        why the temperature stays 1, or None where it was fitted; and
        "fitted_on_itself": whether `val` is this very split, which makes "after"
        optimistic;
      train_accuracy: without augmentation;
      generalization_gap: train_accuracy minus this split's;
      train_accuracy_logged: of the run's last epoch, see `logged_train_accuracy`;
      generalization_gap_logged: train_accuracy_logged minus this split's accuracy.
    """
    fitted, declined = 1.0, "no images are held out to fit a temperature on"
    if val is not None:
        fitted, declined = temperature.fit(val.logits, val.dataset.labels)
    labels = scored.dataset.labels
    logged = logged_train_accuracy(records)
    accuracies = {
        "train_accuracy": train.accuracy,
        "generalization_gap": train.accuracy - scored.accuracy,
        "train_accuracy_logged": logged,
        "generalization_gap_logged": logged - scored.accuracy,
    }
    return {
        "calibration": {
            "before": calibration.summarize(scored.logits, labels),
            "after": calibration.summarize(scored.logits, labels, temperature=fitted),
            "declined": declined or None,
            "fitted_on_itself": val is not None and val.dataset is scored.dataset,
        },
        **classification.defined(accuracies),
    }


def compare_with_people(scored: Scored, counts: np.ndarray) -> dict[str, Any]:
    """`human.summarize`, and the images on which model and people differ most.

    Returns:
      Its numbers and "largest_differences", the largest first: index in the split,
      label, the model's and people's first choice, and the total variation distance of
      their two distributions.
    """
    labels, names = scored.dataset.labels, scored.dataset.class_names
    indices, distances = human.largest_differences(scored.logits, counts, NUM_LISTED)
    differences = [
        {
            "index": int(index),
            "label": names[labels[index]],
            "model": names[scored.logits[index].argmax()],
            "people": names[counts[index].argmax()],
            "distance": float(distance),
        }
        for index, distance in zip(indices, distances, strict=True)
    ]
    summary = human.summarize(scored.logits, labels, counts)
    return {**summary, "largest_differences": differences}


def mirror(dataset: data.Dataset) -> data.Dataset:
    """The dataset with left and right of every image exchanged."""
    return dataclasses.replace(
        dataset, images=np.ascontiguousarray(dataset.images[:, :, ::-1])
    )


def describe_mean(first: Scored, second: Scored) -> dict[str, float | None]:
    """accuracy and loss of the mean of two probabilities, such as an image's and its
    mirror image's.

    It takes two forward passes, so it does not compare with the score of one.
    """
    both = np.stack([first.logits, second.logits]).astype(np.float64)
    # Log-probabilities are logits, too.
    mean = Scored(first.dataset, np.logaddexp(*log_softmax(both, axis=-1)))
    loss = classification.cross_entropy(mean.logits, mean.dataset.labels)
    return classification.defined({"accuracy": mean.accuracy, "loss": loss})
