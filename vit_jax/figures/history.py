"""Training curves, epoch by epoch."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vit_jax.errors import UserError
from vit_jax.figures import style


@dataclasses.dataclass(frozen=True)
class Panel:
    """One pair of axes: its series (key -> label) and how their values are shown."""

    title: str
    unit: str
    series: Mapping[str, str]
    scale: float = 1.0
    from_zero: bool = False


PANELS = (
    Panel("Loss", "loss (nats)", {"train_loss": "train", "val_loss": "val"}),
    Panel(
        "Accuracy",
        "accuracy (%)",
        {"train_accuracy": "train", "val_accuracy": "val"},
        100.0,
    ),
    Panel("Learning rate", "learning rate", {"learning_rate": "learning rate"}),
    Panel("Epoch time", "seconds", {"epoch_seconds": "epoch time"}, from_zero=True),
    Panel("Step time", "milliseconds", {"step_seconds": "step time"}, 1000.0, True),
    Panel(
        "Throughput",
        "images per second",
        {"images_per_second": "throughput"},
        from_zero=True,
    ),
)


def training_curves(
    history: Mapping[str, Sequence[float] | np.ndarray],
    *,
    title: str = "Training",
) -> Figure:
    """Loss, accuracy, learning rate, epoch time, step time and throughput over epochs.

    Args:
      history: "epoch" (passes over the data, fractions allowed) and any of the keys in
        `PANELS`, each as long as "epoch". A value that was not measured at an epoch is
        NaN; lines join the measured ones. Panels without any value are left out.

    Raises:
      UserError: no series to draw.
    """
    epochs = np.asarray(history.get("epoch", ()), float)
    measured = {
        key: np.asarray(values, float)
        for key, values in history.items()
        if key != "epoch" and np.isfinite(np.asarray(values, float)).any()
    }
    panels = [panel for panel in PANELS if measured.keys() & panel.series.keys()]
    if not panels:
        raise UserError(
            "There are no training curves to draw: no epoch has been logged yet; "
            "train at least until the first evaluation."
        )
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = style.new_figure(0.6 + 3.0 * columns, 0.4 + 2.7 * rows, title)
    for index, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, index + 1)
        _draw_panel(axes, panel, epochs, measured)
    return figure


def _draw_panel(
    axes: Axes, panel: Panel, epochs: np.ndarray, measured: Mapping[str, np.ndarray]
) -> None:
    style.label_axes(axes, panel.title, "epoch", panel.unit)
    for (key, label), color, dashes in zip(
        panel.series.items(), style.PALETTE, style.LINE_STYLES, strict=False
    ):
        if key not in measured:
            continue
        known = np.isfinite(measured[key])
        axes.plot(
            epochs[known],
            panel.scale * measured[key][known],
            dashes,
            color=color,
            label=label,
            # A line through a single point would be invisible.
            marker="o" if known.sum() == 1 else None,
            linewidth=1.6,
        )
    axes.ticklabel_format(axis="y", scilimits=(-3, 5))
    if panel.from_zero:
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    if len(panel.series) > 1:
        axes.legend(fontsize=9, frameon=False)
