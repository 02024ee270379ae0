"""Training curves of a run, from its metrics.jsonl."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure

from vit_jax.figures import history
from vit_jax.runs.folder import RunFolder


def history_series(
    records: Sequence[Mapping[str, Any]],
    muon_ratio: float | None = None,
) -> dict[str, Float[np.ndarray, " records"]]:
    """metrics.jsonl as the series that `figures.history.training_curves` draws.

    Args:
      records: of metrics.jsonl; NaN where one does not have the value.
      muon_ratio: Muon's learning rate over the other one; None: there is no such rate.
    """

    def column(name: str, split: str = "train") -> Float[np.ndarray, " records"]:
        values = [r.get(name) if r["split"] == split else None for r in records]
        return np.array(values, float)  # None becomes NaN

    series = {"epoch": np.array([record["epoch"] for record in records], float)}
    for split in dict.fromkeys(record["split"] for record in records):
        for name in ("loss", "accuracy"):
            series[f"{split}_{name}"] = column(name, split)
    # Of images that are not mixed the two accuracies are the same.
    weighted = column("weighted_accuracy")
    if not np.allclose(weighted, column("accuracy"), rtol=0, atol=1e-5, equal_nan=True):
        series["train_weighted_accuracy"] = weighted
    series |= {name: column(name) for name in ("learning_rate", "step_seconds")}
    series["step_seconds"][_short_intervals(records)] = np.nan
    if muon_ratio:
        series["muon_learning_rate"] = muon_ratio * series["learning_rate"]
    return series


def _short_intervals(
    records: Sequence[Mapping[str, Any]],
) -> Bool[np.ndarray, " records"]:
    """Whether a record is of less than half as many steps as the longest.

    Evaluations and checkpoints cut intervals in two, and the time of a short part is
    too inexact.
    """
    is_train = np.array([record["split"] == "train" for record in records])
    steps = np.array([record.get("step", 0) for record in records])
    num_steps = np.zeros(len(records))
    num_steps[is_train] = np.diff(steps[is_train], prepend=0)
    return is_train & (2 * num_steps < num_steps.max(initial=0))


def _steps_per_epoch(records: Sequence[Mapping[str, Any]]) -> float | None:
    timed = [record for record in records if record.get("step_seconds")]
    return timed[-1]["epoch_seconds"] / timed[-1]["step_seconds"] if timed else None


def draw_history(folder: RunFolder, step: int | None = None) -> dict[str, Figure]:
    """{"training_curves": figure} of a run, or {} if no training step was logged.

    Args:
      step: of the scored checkpoint, which is marked; None: that of the results.
    """
    records = folder.read_metrics()
    if all(record["split"] != "train" for record in records):
        return {}
    last = max(records, key=lambda record: record["step"])
    config = folder.read("config")
    optim, masked = config["optim"], config.get("objective") == "masked_autoencoding"
    # A stage with settings of its own may have another ratio, or no Muon.
    of_stages = {key for stage in config.get("stages", ()) for key in stage}
    same_ratio = not any(key.startswith("optim.") for key in of_stages)
    ratio = None
    if optim["name"] == "muon" and optim["learning_rate"] and same_ratio:
        ratio = optim["muon_learning_rate"] / optim["learning_rate"]
    results = folder.read_results()
    step = results.get("best_step") if step is None else step
    figure = history.training_curves(
        history_series(records, ratio),
        scored_epoch=None if step is None else step * last["epoch"] / last["step"],
        stage_epochs=[
            stage["first_step"] * results["num_epochs"] / results["num_steps"]
            for stage in results.get("stages", [])[1:]
        ],
        steps_per_epoch=_steps_per_epoch(records),
        loss_unit="mean squared error" if masked else "nats",
        title=f"Training curves of {folder.path.name}",
    )
    return {"training_curves": figure}
