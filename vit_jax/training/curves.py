"""Training curves of a run, from its metrics.jsonl."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from vit_jax.figures import history, style
from vit_jax.runs.folder import RunFolder

TIMINGS = ("epoch_seconds", "step_seconds", "images_per_second")


def history_series(
    records: Sequence[Mapping[str, Any]],
) -> dict[str, Float[np.ndarray, " records"]]:
    """metrics.jsonl as the series that `figures.history.training_curves` draws.

    NaN where a record does not have the value.
    """

    def column(split: str, name: str) -> Float[np.ndarray, "records"]:
        values = [r.get(name) if r["split"] == split else None for r in records]
        return np.array(values, float)  # None becomes NaN

    series = {"epoch": np.array([record["epoch"] for record in records], float)}
    for name in ("loss", "accuracy"):
        series |= {f"{s}_{name}": column(s, name) for s in ("train", "val")}
    return series | {k: column("train", k) for k in ("learning_rate", *TIMINGS)}


def draw_history(records: Sequence[Mapping[str, Any]], name: str) -> dict[str, Figure]:
    """{"training_curves": figure} of a run, or {} if nothing has been logged."""
    if not records:
        return {}
    title = f"Training curves of {name}"
    return {
        "training_curves": history.training_curves(history_series(records), title=title)
    }


def save_history(folder: RunFolder) -> None:
    """Draws the curves of a run's metrics.jsonl into its folder figures/."""
    figures = draw_history(folder.read_metrics(), folder.path.name)
    for name, figure in figures.items():
        style.save(figure, folder.figures / f"{name}.png")
