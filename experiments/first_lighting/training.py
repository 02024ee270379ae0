"""Accuracy over seconds of training runs."""

import pathlib
from typing import Any

from experiments.launching.jobs import is_finished
from experiments.launching.summary import describe_run
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.records import evaluations

_COLUMNS = ("step", "epoch", "seconds", "accuracy", "loss")


def describe_training(out: pathlib.Path, with_test: bool) -> dict[str, dict[str, Any]]:
    """What the runs below OUT/runs have reached, whether they are finished or not.

    Args:
      with_test: whether the test accuracies are read; not those of a search's arms,
        between which images held out choose.

    Returns:
      For each run its seed, its evaluations during the training (the accuracy is that
      on the images held out, "seconds" are those of training), and, once it is
      finished, its test accuracy and what `describe_run` says; or why it failed.
    """
    return {
        path.name: _describe(RunFolder(path), with_test)
        for path in sorted((out / "runs").glob("*"))
    }


def _describe(folder: RunFolder, with_test: bool) -> dict[str, Any]:
    scored = [
        {name: record.get(name) for name in _COLUMNS}
        for record in evaluations(folder.read_metrics())
    ]
    described: dict[str, Any] = {"evaluations": scored}
    if folder.has("config"):
        described["seed"] = folder.read("config")["seed"]
    if is_finished(folder):
        described |= describe_run(folder)
        if with_test:
            described["test_accuracy"] = folder.read("results")["test"]["accuracy"]
    elif (error := folder.path / "error.txt").exists():
        described["error"] = error.read_text(errors="replace")
    return described


def summarize(runs: dict[str, dict[str, Any]]) -> list[str]:
    """A line for each run."""
    lines = []
    for name, run in runs.items():
        line, evaluations = name, run["evaluations"]
        if evaluations:
            last = evaluations[-1]
            line += f": {_percent(last['accuracy'])} held out, {last['seconds']:.1f} s"
        if "test_accuracy" in run:
            line += f"; {_percent(run['test_accuracy'])} test"
        elif "error" in run:
            line += f"; {run['error'].strip().splitlines()[-1]}"
        elif "best_epoch" not in run:
            line += "; not finished"
        lines.append(line)
    return lines


def _percent(accuracy: float | None) -> str:
    return "–" if accuracy is None else f"{accuracy:.2%}"
