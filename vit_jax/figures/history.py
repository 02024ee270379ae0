"""Training curves, epoch by epoch."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from vit_jax.figures import style


@dataclasses.dataclass(frozen=True)
class Panel:
    """One pair of axes: its series (key -> label) and how their values are shown.

    With `log_scale` the axis is logarithmic where there is more than one series.
    Otherwise, with `from_zero`, it begins at 0.
    """

    title: str
    unit: str
    series: Mapping[str, str]
    scale: float = 1.0
    from_zero: bool = False
    log_scale: bool = False


PANELS = (
    Panel(
        "Loss",
        "loss ({loss_unit})",
        {"train_loss": "train", "val_loss": "val", "test_loss": "test"},
    ),
    Panel(
        "Accuracy",
        "accuracy (%)",
        {
            "train_accuracy": "train",
            "val_accuracy": "val",
            "test_accuracy": "test",
            "train_weighted_accuracy": "train, weighted",
        },
        100.0,
    ),
    Panel(
        "Learning rate",
        "learning rate",
        {"learning_rate": "learning rate", "muon_learning_rate": "Muon"},
        from_zero=True,
        log_scale=True,
    ),
    Panel(
        "Time",
        "milliseconds per step",
        {"step_seconds": "step"},
        1000.0,
        from_zero=True,
    ),
)


def training_curves(
    history: Mapping[str, Sequence[float] | np.ndarray],
    *,
    scored_epoch: float | None = None,
    stage_epochs: Sequence[float] = (),
    steps_per_epoch: float | None = None,
    loss_unit: str = "nats",
    title: str = "Training",
) -> Figure:
    """Loss, accuracy, learning rates and time over epochs.

    Args:
      history: "epoch" (passes over the data, fractions allowed) and some of the keys in
        `PANELS`, each as long as "epoch". A value that was not measured at an epoch is
        NaN; lines join the measured ones. Panels without any value are left out; at
        least one value must have been measured.
      scored_epoch: of the checkpoint whose scores are the run's, marked by a line.
      stage_epochs: where each later stage of the training begins; thin lines mark it.
      steps_per_epoch: for a second scale of the time, in seconds per epoch.
      loss_unit: of the training's objective.
    """
    series = {key: np.asarray(values, float) for key, values in history.items()}
    epochs = series.pop("epoch")
    measured = {key: y for key, y in series.items() if np.isfinite(y).any()}
    panels = [
        dataclasses.replace(panel, unit=panel.unit.format(loss_unit=loss_unit))
        for panel in PANELS
        if measured.keys() & panel.series.keys()
    ]
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    figure = style.new_figure(0.6 + 4.2 * columns, 0.4 + 2.7 * rows, title)
    for index, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, index + 1)
        _draw_panel(axes, panel, epochs, measured, scored_epoch)
        if steps_per_epoch and "step_seconds" in panel.series:
            scale = functools.partial(np.multiply, steps_per_epoch / panel.scale)
            back = functools.partial(np.multiply, panel.scale / steps_per_epoch)
            right = axes.secondary_yaxis("right", functions=(scale, back))
            right.set_ylabel("seconds per epoch", fontsize=10)
            right.tick_params(labelsize=9)
        for epoch in stage_epochs:
            axes.axvline(epoch, color="0.6", lw=0.8, ls=(0, (1, 4)), zorder=0)
    return figure


def _draw_panel(
    axes: Axes,
    panel: Panel,
    epochs: np.ndarray,
    measured: Mapping[str, np.ndarray],
    scored_epoch: float | None,
) -> None:
    style.label_axes(axes, panel.title, "epoch", panel.unit)
    for (key, label), color, dashes in zip(
        panel.series.items(), style.PALETTE, style.LINE_STYLES, strict=False
    ):
        if key not in measured:
            continue
        values = panel.scale * measured[key]
        look = {"linestyle": dashes, "color": color, "label": label}
        style.draw_measured(axes, epochs, values, **look)
    if panel.log_scale and len(axes.lines) > 1:
        axes.set_yscale("log", nonpositive="mask")
        # The default writes powers as formulas, which `new_figure` shows as typed.
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.ticklabel_format(axis="y", scilimits=(-3, 5))
        if panel.from_zero:
            axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    if scored_epoch is not None and panel.unit.startswith(("loss", "accuracy")):
        axes.axvline(scored_epoch, color="0.4", lw=1, ls=":", label="scored")
    if len(axes.get_legend_handles_labels()[0]) > 1:
        axes.legend(fontsize=9, frameon=False)
