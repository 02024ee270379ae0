"""Several runs side by side."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from vit_jax.figures import style

# A run's name -> its x and y values.
Curves = Mapping[str, tuple[np.ndarray, np.ndarray]]


def training_curves(
    loss: Mapping[str, Curves], accuracy: Mapping[str, Curves]
) -> Figure:
    """A row for loss, one for accuracy, and a column for each split.

    Args:
      loss: split -> run -> (epoch, loss in nats); NaN values are skipped.
      accuracy: split -> run -> (epoch, accuracy 0 to 1), of the same splits and runs.
    """
    figure = style.new_figure(10.4, 7.2, "Loss and accuracy of the runs")
    grid = figure.subplots(2, len(loss), sharex=True, sharey="row", squeeze=False)
    rows = ((loss, "loss (nats)", 1), (accuracy, "accuracy (%)", 100))
    for axes_row, (splits, unit, factor) in zip(grid, rows, strict=True):
        for axes, (split, curves) in zip(axes_row, splits.items(), strict=True):
            names = style.legend_names([*curves])
            for index, (name, (x, y)) in enumerate(
                zip(names, curves.values(), strict=True)
            ):
                look = style.series_look(index) | {"label": name}
                style.draw_measured(axes, x, factor * y, **look)
            style.label_axes(axes, split, "epoch")
        axes_row[0].set_ylabel(unit, fontsize=10)
    style.legend_beside(grid[0, -1])
    return figure


def accuracy_over_time(
    groups: Mapping[str, Sequence[tuple[np.ndarray, np.ndarray]]],
    unit: str = "seconds",
    split: str = "validation",
) -> Figure:
    """Accuracy by training time, all runs of a recipe in one look.

    Args:
      groups: recipe -> (time in `unit`, accuracy 0 to 1) of each of its runs, such as
        seeds; NaN values are skipped. The legend also has the mean of the runs' last
        values, or says that there are none.
      split: the split on which the accuracy was measured.
    """
    # A legend of more would cover the lines.
    fits_inside = len(groups) <= 4
    width = 7.2 if fits_inside else 10.4
    figure = style.new_figure(width, 4.4, "Accuracy over training time")
    axes = figure.add_subplot()
    style.label_axes(axes, "", f"training time ({unit})", f"{split} accuracy (%)")
    names = style.legend_names([*groups])
    for index, (name, runs) in enumerate(zip(names, groups.values(), strict=True)):
        look = style.series_look(index) | {"markersize": 4, "linewidth": 1.6}
        last = []
        for seconds, accuracy in runs:
            known = np.isfinite(accuracy)
            every = max(1, known.sum() // 10)
            axes.plot(seconds[known], 100 * accuracy[known], markevery=every, **look)
            last += list(100 * accuracy[known][-1:])
        seeds = f"{len(runs)} runs, " if len(runs) > 1 else ""
        end = f"{seeds}ends at {np.mean(last):.1f}" if last else "no evaluations"
        if not last:
            look |= {"linestyle": "none", "marker": "none"}
        axes.plot([], [], **look, label=f"{name} ({end})")
    axes.set_xlim(left=0)
    if fits_inside:
        axes.legend(fontsize=9, frameon=False, loc="best")
    else:
        style.legend_beside(axes)
    return figure


def accuracy_chart(
    accuracies: Mapping[str, tuple[float, float, float]],
    columns: Mapping[str, Sequence[str]],
    *,
    title: str = "Test accuracy",
) -> Figure:
    """A row for each run or recipe: a dot with its interval, and further numbers.

    Args:
      accuracies: name -> (accuracy, low and high end of its interval), 0 to 1. NaN
        where nothing is known.
      columns: heading -> a text for each row, beside the dots.
      title: says what the intervals are.
    """
    names = list(map(style.drawable, accuracies))
    percent = 100 * np.array(list(accuracies.values()))
    width = 5.0 + 0.08 * max(map(len, names)) + 1.1 * len(columns)
    figure = style.new_figure(width, 1.7 + 0.42 * len(names), title)
    axes, table = figure.subplots(1, 2, width_ratios=(4.2, max(1, 1.1 * len(columns))))
    style.label_axes(axes, x="test accuracy (%)")
    axes.grid(False, axis="y")
    for row, (mean, low, high) in enumerate(percent):
        if not np.isfinite(mean):
            continue
        ends = np.array([[mean - low], [high - mean]])
        axes.errorbar(mean, row, xerr=ends, fmt="o", capsize=4, color=style.BLUE)
        place = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center"}
        axes.annotate(f"{mean:.2f}", (mean, row), **place, fontsize=9)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.7)
    table.set_axis_off()
    table.set_xlim(-0.5, max(1, len(columns)) - 0.5)
    table.set_ylim(axes.get_ylim())
    for column, (heading, texts) in enumerate(columns.items()):
        table.text(
            column, -0.7, heading, ha="center", va="bottom", fontsize=9, weight="bold"
        )
        for row, text in enumerate(texts):
            table.text(column, row, text, ha="center", va="center", fontsize=9)
    return figure
