"""Runs in numbers: each alone, grouped over seeds, and in paired tests."""

import collections
import dataclasses
import json
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from vit_jax.analysis import evaluate, run_data
from vit_jax.analysis.scored import Scored, Scorer
from vit_jax.errors import UserError
from vit_jax.files import as_json
from vit_jax.metrics import classification, paired
from vit_jax.runs.folder import RunFolder, settings_to_compare
from vit_jax.runs.load import load_selected, stored_scores
from vit_jax.runs.records import evaluations
from vit_jax.training import scoring


@dataclasses.dataclass(frozen=True)
class Entry:
    """One run.

    Attributes:
      name: for tables and legends; of an unfinished run it says so.
      model, seed: as in the config.
      selected_on: what chose the scored checkpoint: "val" or "test" for that split, or
        "nothing" for the weights after the last epoch.
      recipe: equal for runs whose settings differ only in the seed, and which are
        finished.
      records: of metrics.jsonl.
      scored: the test split with the best checkpoint's logits.
      worst_class: the name of the class with the lowest F1 score on it.
      goal: the training accuracy, 0 to 1, that `numbers` counts epochs to.
      latency: see `latency.describe`.
      numbers: those of `compare.COLUMNS`; None where unknown. Parameters are in
        millions, and operations of one forward pass in billions (1e9). Milliseconds
        are for one image, in batches of 1 and of 128, measured by this process; None
        where the timings spread too far. Epochs and seconds to an accuracy are infinite
        where it was never reached.
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
    latency: dict[str, Any]
    numbers: dict[str, float | int | None]

    @property
    def correct(self) -> np.ndarray:
        """Whether the run classifies each test image correctly."""
        predicted = classification.predicted_classes(self.scored.logits)
        return predicted == self.scored.dataset.labels


def load_entry(
    workdir: str | pathlib.Path,
    name: str,
    moved: Mapping[str, str] | None = None,
    *,
    goal: float = 0.9,
) -> Entry:
    """Scores a run's best checkpoint, or the latest if none was evaluated yet.

    `name` and `goal` are those of `Entry`; for `moved` see `run_data.load_splits`.

    Raises:
      UserError: no run there, or its data cannot be read.
    """
    folder = RunFolder(workdir)
    run, selected_on = load_selected(folder.path)
    run.check_classifier()
    run, splits = run_data.load_splits(run, moved)
    config = run.config
    test = splits["test"]
    score = Scorer(run, config.eval_batch_size)
    scored = score(test)
    recipe = _describe_recipe(config, folder)
    records = folder.read_metrics()
    results = folder.read_results()
    last_step = max((record["step"] for record in records), default=0)
    # A run that is made longer still has its earlier results.
    if last_step > results.get("num_steps", -1):
        # It is of another length than any other run, so it is no seed of one.
        recipe["unfinished"] = str(run.workdir)
        name = f"{name}, unfinished"
    stored = stored_scores(results, run.step).get("test", {})
    scores = scoring.describe_scores(scored.logits, test)
    cost = score.describe_cost(test)
    latency = cost["latency"]
    gap = evaluate.logged_train_accuracy(records) - scored.accuracy
    trainable = _num_trainable(config, results, cost["num_params"])
    trained = describe_training(records, goal)
    if not records:  # as of a probe that held nothing out
        times = ("train_seconds", "cpu_seconds")
        trained |= {name: results.get(name) for name in times}
    return Entry(
        name=name,
        model=config.model.name,
        seed=config.seed,
        selected_on=selected_on,
        recipe=json.dumps(recipe, sort_keys=True),
        records=records,
        scored=scored,
        worst_class=scores["worst_class"]["name"],
        goal=goal,
        latency=latency,
        numbers={
            "accuracy": scores["accuracy"],
            "loss": scores["loss"],
            "mean_auc": scores["macro"]["auc"],
            "mean_f1": scores["macro"]["f1"],
            "worst_f1": scores["worst_class"]["f1"],
            "generalization_gap": stored.get("generalization_gap"),
            "logged_gap": as_json(gap),
            "parameters_m": cost["num_params"] / 1e6,
            "flops_g": cost["flops"] / 1e9,
            "inference_ms": latency["batch_1"]["milliseconds_per_image"],
            "inference_ms_batch_128": latency["batch_128"]["milliseconds_per_image"],
            "trainable_parameters_m": trainable and trainable / 1e6,
            **trained,
        },
    )


def _describe_recipe(config: ConfigDict, folder: RunFolder) -> dict[str, Any]:
    """What is equal for runs that differ only in the seed."""
    ignored = {"seed"}
    if config.time_budget:  # Each seed measures its own number of steps.
        ignored.add("num_steps")
    settings = settings_to_compare(config)
    recipe = {key: value for key, value in settings.items() if key not in ignored}
    # Paths do not say whether data and first weights are the same.
    recipe["dataset"] = folder.read("dataset")
    # A run that went on with other settings was not trained as its last ones say.
    recipe["changed"] = folder.read_changes()
    if folder.has("pretrained"):
        recipe["pretrained"] = folder.read("pretrained")["sha256"]
    return recipe


def _num_trainable(
    config: ConfigDict, results: Mapping[str, Any], num_params: int
) -> int | None:
    """The number of parameters that are trained; None where it is not known."""
    if stored := results.get("num_trainable_params"):
        return stored
    # An unfinished run has no results yet.
    is_whole = config.optim.trainable == "all" and not config.linear_probe
    return num_params if is_whole and not config.stages else None


def describe_training(
    records: Sequence[Mapping[str, Any]], goal: float
) -> dict[str, Any]:
    """epoch_seconds (mean), train_seconds, cpu_seconds (None unless they are known),
    and the cost of reaching accuracies."""
    scored = evaluations(records)
    # None stands for a value that was not finite.
    good = [r["epoch"] for r in scored if (r.get("accuracy") or 0) >= 0.9]
    keys = ("epochs_to_train_accuracy", "seconds_to_train_accuracy")
    reached = evaluate.train_epochs(records, "accuracy").first_reaching(goal)
    last = records[-1] if records else {"epoch": 0, "seconds": None}
    return {
        "epoch_seconds": last["seconds"] / last["epoch"] if last["epoch"] else None,
        "train_seconds": last["seconds"],
        "cpu_seconds": last.get("cpu_seconds"),
        "epochs_to_90": (
            (good[0] if good else math.inf) if scored and last["epoch"] else None
        ),
        **classification.defined(dict(zip(keys, reached, strict=True))),
    }


def group_runs(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Groups of runs that differ only in the seed, in the order of their first run.

    A run whose recipe and seed are those of an earlier one begins another group.
    """
    groups: dict[tuple[str, int], list[Entry]] = {}
    times: collections.Counter[tuple[str, int]] = collections.Counter()
    for entry in entries:
        group = entry.recipe, times[entry.recipe, entry.seed]
        groups.setdefault(group, []).append(entry)
        times[entry.recipe, entry.seed] += 1
    return list(groups.values())


def mean_and_std(group: Sequence[Entry], key: str) -> tuple[float, float]:
    """Mean and standard deviation of one of the runs' `numbers`.

    Both are NaN where a run does not have the number. The mean of the time to an
    accuracy that no run of the group ever reached is infinite; of one that some reached
    it is NaN. The standard deviation of one run is NaN.
    """
    values = np.array([entry.numbers[key] for entry in group], float)
    if np.isinf(values).any():
        # Averaging only the runs that reached it would be biased.
        return (math.inf if np.isinf(values).all() else math.nan), math.nan
    return paired.mean_and_std(values)


def different_splits(name: str, other: str) -> UserError:
    return UserError(
        f"{name} and {other} have different test splits, but runs are compared image "
        "by image; give runs of one dataset."
    )


def paired_tests(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Each run but the first against the first, on the same test images.

    Returns:
      run, against, difference (accuracy of `run` minus that of `against`), low, high
      (its 95% interval over images), only_run, only_against (images that only that
      run classifies correctly), p_value (McNemar's exact test).

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
            raise different_splits(first.name, other.name)
        pair = other.correct, first.correct
        difference, low, high = paired.accuracy_difference(*pair)
        test = paired.mcnemar(*pair)
        rows.append(
            {
                "run": other.name,
                "against": first.name,
                "difference": difference,
                "low": low,
                "high": high,
                "only_run": test["only_a"],
                "only_against": test["only_b"],
                "p_value": test["p_value"],
            }
        )
    return rows


def seed_tests(groups: Sequence[Sequence[Entry]]) -> list[dict[str, Any]]:
    """Each recipe but the first against the first, over two or more common seeds.

    Returns:
      run, against (as in `group_runs`, the first run of each), num_seeds, difference
      (mean test accuracy minus that of `against`), low, high (its 95% interval).
    """
    first, *others = [
        {entry.seed: float(entry.correct.mean()) for entry in group} for group in groups
    ]
    rows = []
    for group, other in zip(groups[1:], others, strict=True):
        seeds = sorted(other.keys() & first.keys())
        if len(seeds) > 1:
            a, b = (np.array([of[seed] for seed in seeds]) for of in (other, first))
            difference, low, high = paired.seed_difference(a, b)
            rows.append(
                {
                    "run": group[0].name,
                    "against": groups[0][0].name,
                    "num_seeds": len(seeds),
                    "difference": difference,
                    "low": low,
                    "high": high,
                }
            )
    return rows
