"""Several runs side by side."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vit_jax.figures import style

# A run's name -> its x and y values.
Curves = Mapping[str, tuple[np.ndarray, np.ndarray]]


def accuracy_curves(
    by_epoch: Curves,
    by_seconds: Curves,
    *,
    split: str = "val",
    title: str = "Accuracy of the runs",
) -> Figure:
    """Each run's accuracy over epochs, and over the seconds it had trained.

    Args:
      by_epoch: run -> (epoch, accuracy 0 to 1); NaN values are skipped.
      by_seconds: run -> (seconds of training, accuracy).
      split: that the accuracy is of.
      title: of the figure.
    """
    figure = style.new_figure(10.4, 4.2, title)
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_curves(left, by_epoch, "over epochs", "epoch")
    _draw_curves(right, by_seconds, "over time", "training time (seconds)")
    left.set_ylabel(f"{split} accuracy (%)", fontsize=10)
    right.legend(
        loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9, frameon=False
    )
    return figure


def mean_bars(
    means: Mapping[str, float],
    stds: Mapping[str, float],
    *,
    unit: str,
    title: str,
    from_zero: bool = True,
) -> Figure:
    """A bar for each name, longest names welcome, with an error bar and its value.

    Args:
      means: name -> mean, such as the test accuracy over seeds in per cent.
      stds: name -> standard deviation; NaN or no entry: no error bar (one seed).
      unit: of the values, for the axis.
      title: of the figure.
      from_zero: False starts the axis near the smallest value and draws dots, because
        bars that do not start at 0 mislead.
    """
    figure = style.new_figure(7.2, 1.2 + 0.42 * len(means), title)
    axes = figure.add_subplot()
    style.label_axes(axes, x=unit)
    axes.grid(False, axis="y")
    for row, (name, mean) in enumerate(means.items()):
        std = stds.get(name, np.nan)
        known = np.isfinite(std)
        spread = {"xerr": std, "capsize": 4} if known else {}
        if from_zero:
            error = {"error_kw": {"capsize": 4}, "xerr": std} if known else {}
            axes.barh(row, mean, 0.65, color=style.SKY, **error)
        else:
            axes.errorbar(mean, row, fmt="o", color=style.BLUE, **spread)
        axes.annotate(
            f"{mean:.4g} ± {std:.2g}" if known else f"{mean:.4g}",
            (mean + (std if known else 0), row),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    axes.set_yticks(range(len(means)), list(means))
    axes.set_ylim(len(means) - 0.4, -0.6)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high + 0.2 * (high - low))  # room for the numbers
    return figure


def _draw_curves(axes: Axes, curves: Curves, title: str, unit: str) -> None:
    style.label_axes(axes, title, unit)
    for index, ((name, (x, y)), color) in enumerate(
        zip(curves.items(), style.colors(len(curves)), strict=True)
    ):
        known = np.isfinite(y)
        axes.plot(
            x[known],
            100 * y[known],
            style.LINE_STYLES[index % 4],
            color=color,
            linewidth=1.6,
            label=name,
        )
