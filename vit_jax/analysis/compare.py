"""Runs in numbers: each alone, grouped over seeds, and in paired tests."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vit_jax.analysis import evaluate, run_data
from vit_jax.analysis.scored import Scored, Scorer
from vit_jax.config import flatten
from vit_jax.errors import UserError
from vit_jax.metrics import classification, paired
from vit_jax.metrics.epochs import EpochMeans
from vit_jax.runs.folder import FREE_SETTINGS, RunFolder
from vit_jax.runs.load import load_run, stored_scores
from vit_jax.training import scoring


@dataclasses.dataclass(frozen=True)
class Entry:
    """One run.

    Attributes:
      name: for tables and legends.
      model, seed: as in the config.
      selected_on: what chose the scored checkpoint: "val" or "test" for that split, or
        "nothing" for the weights after the last epoch.
      recipe: equal for runs whose settings differ only in the seed.
      records: of metrics.jsonl.
      scored: the test split with the best checkpoint's logits.
      worst_class: the name of the class with the lowest F1 score on it.
      goal: the training accuracy, 0 to 1, that `numbers` counts epochs to.
      numbers: those of `compare_files.COLUMNS`; None where unknown. Parameters are
        in millions, operations of one forward pass in billions (1e9), milliseconds for
        one image in batches of 1 and of 128, measured here and now. Epochs and seconds
        to an accuracy are infinite where it was never reached.
    """

    name: str
    model: str
    seed: int
    selected_on: str
    recipe: str
    records: list[dict[str, Any]]
    scored: Scored
    worst_class: str
    goal: float
    numbers: dict[str, float | int | None]

    @property
    def correct(self) -> np.ndarray:
        """Whether the run is right, for each test image."""
        predicted = classification.predicted_classes(self.scored.logits)
        return predicted == self.scored.dataset.labels

    def train_epochs(self, key: str) -> EpochMeans:
        """`evaluate.train_epochs` of this run."""
        return evaluate.train_epochs(self.records, key)


def load_entry(
    workdir: str | pathlib.Path,
    name: str,
    overrides: Sequence[str] = (),
    *,
    goal: float = 0.9,
) -> Entry:
    """Scores a run's best checkpoint; `overrides` are "--config.data.dir=DIR" etc.

    Raises:
      UserError: no run there, or its data cannot be read.
    """
    run = load_run(workdir)
    folder = RunFolder(workdir)
    config, splits = run_data.load_splits(run, overrides)
    test = splits["test"]
    score = Scorer(run, config.eval_batch_size)
    scored = score(test)
    ignored = {"seed", *FREE_SETTINGS}
    recipe = {k: v for k, v in flatten(run.config) if k not in ignored}
    records = folder.read_metrics()
    results = folder.read("results") if folder.has("results") else {}
    stored = stored_scores(results, run.step).get("test", {})
    scores = scoring.describe_scores(scored.logits, test)
    cost = score.describe_cost(test)
    gap = evaluate.logged_train_accuracy(records) - scored.accuracy
    return Entry(
        name=name,
        model=config.model.name,
        seed=config.seed,
        selected_on=config.data.select_on,
        recipe=json.dumps(recipe, sort_keys=True),
        records=records,
        scored=scored,
        worst_class=scores["worst_class"]["name"],
        goal=goal,
        numbers={
            **_describe_scores(scores),
            "generalization_gap": stored.get("generalization_gap"),
            "logged_gap": None if math.isnan(gap) else gap,
            **_describe_cost(cost),
            "trainable_parameters_m": (
                results.get("num_trainable_params", cost["num_params"]) / 1e6
            ),
            **_describe_training(records, goal),
        },
    )


def _describe_scores(scores: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "accuracy": scores["accuracy"],
        "loss": scores["loss"],
        "mean_auc": scores["macro"]["auc"],
        "mean_f1": scores["macro"]["f1"],
        "worst_f1": scores["worst_class"]["f1"],
    }


def _describe_cost(cost: Mapping[str, Any]) -> dict[str, float]:
    latency = cost["latency"]
    return {
        "parameters_m": cost["num_params"] / 1e6,
        "flops_g": cost["flops"] / 1e9,
        "inference_ms": latency["batch_1"]["milliseconds_per_image"],
        "inference_ms_batch_128": latency["batch_128"]["milliseconds_per_image"],
    }


def _describe_training(
    records: Sequence[Mapping[str, Any]], goal: float
) -> dict[str, Any]:
    """epoch_seconds (mean), train_seconds and what it took to reach accuracies."""
    val = [r for r in records if r["split"] == "val"]
    # None is a NaN, from logits that were not finite.
    good = [r["epoch"] for r in val if (r["accuracy"] or 0) >= 0.9]
    reached = evaluate.train_epochs(records, "accuracy").first_reaching(goal)
    epochs, seconds = (None if math.isnan(x) else x for x in reached)
    last = records[-1] if records else {"epoch": 0, "seconds": None}
    return {
        "epoch_seconds": last["seconds"] / last["epoch"] if last["epoch"] else None,
        "train_seconds": last["seconds"],
        "epochs_to_90": (good[0] if good else math.inf) if val else None,
        "epochs_to_train_accuracy": epochs,
        "seconds_to_train_accuracy": seconds,
    }


def group_runs(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Runs that differ only in the seed, together; in the order of their first run."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.recipe, []).append(entry)
    return list(groups.values())


def summarize_group(group: Sequence[Entry]) -> dict[str, tuple[float, float]]:
    """Number -> (mean, standard deviation); NaN where a run does not have the number.

    The mean of an accuracy that no run of the group ever reached is infinite; of one
    that some reached it is NaN. The deviation of one run is NaN.
    """
    return {
        key: _mean_and_std([e.numbers[key] for e in group]) for key in group[0].numbers
    }


def _mean_and_std(values: Sequence[float | None]) -> tuple[float, float]:
    numbers = [math.nan if value is None else value for value in values]
    if math.inf in numbers:
        # A mean of those alone that got there would flatter.
        return (math.inf if set(numbers) == {math.inf} else math.nan), math.nan
    return paired.mean_and_std(numbers)


def paired_tests(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Each run but the first against the first, on the same test images.

    Returns:
      run, against, difference (accuracy of `run` minus that of `against`), low, high
      (95% bootstrap interval), only_run, only_against (images that one alone gets
      right), p_value (McNemar's exact test).

    Raises:
      UserError: a run was trained on another dataset than the first.
    """
    first, *others = entries
    rows = []
    for other in others:
        here, there = first.scored.dataset, other.scored.dataset
        same = np.array_equal(here.images, there.images) and np.array_equal(
            here.labels, there.labels
        )
        if not same or here.class_names != there.class_names:
            raise UserError(
                f"{first.name} and {other.name} have different test splits, but runs "
                "are compared image by image; give runs of one dataset."
            )
        difference = paired.bootstrap_difference(other.correct, first.correct)
        mcnemar = paired.mcnemar(other.correct, first.correct)
        rows.append(
            {
                "run": other.name,
                "against": first.name,
                "difference": difference.estimate,
                "low": difference.low,
                "high": difference.high,
                "only_run": mcnemar.only_a,
                "only_against": mcnemar.only_b,
                "p_value": mcnemar.p_value,
            }
        )
    return rows
