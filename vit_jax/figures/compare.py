"""Several runs side by side."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vit_jax.figures import style

# A run's name -> its x and y values.
Curves = Mapping[str, tuple[np.ndarray, np.ndarray]]
_COLUMNS = 3  # panels in a row of `comparison_panels`


def training_curves(
    loss: Mapping[str, Curves],
    accuracy: Mapping[str, Curves],
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
            _draw_curves(axes, curves, factor)
            style.label_axes(axes, split, "epoch")
        axes_row[0].set_ylabel(unit, fontsize=10)
    grid[0, -1].legend(
        loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9, frameon=False
    )
    return figure


def accuracy_over_time(
    groups: Mapping[str, Sequence[tuple[np.ndarray, np.ndarray]]],
    unit: str = "seconds",
) -> Figure:
    """Validation accuracy by training time, one colour for each recipe.

    Args:
      groups: recipe -> (time in `unit`, accuracy 0 to 1) of each of its runs, such as
        seeds; NaN values are skipped. The legend also has the mean of the runs' last
        values.
    """
    figure = style.new_figure(7.2, 4.4, "Accuracy over training time")
    axes = figure.add_subplot()
    style.label_axes(axes, "", f"training time ({unit})", "validation accuracy (%)")
    looks = zip(groups.items(), style.colors(len(groups)), strict=True)
    for index, ((name, runs), color) in enumerate(looks):
        look = {
            "color": color,
            "linestyle": style.LINE_STYLES[index % 4],
            "marker": style.MARKERS[index % len(style.MARKERS)],
            "markersize": 4,
            "linewidth": 1.6,
        }
        last = []
        for seconds, accuracy in runs:
            known = np.isfinite(accuracy)
            every = max(1, known.sum() // 10)
            axes.plot(seconds[known], 100 * accuracy[known], markevery=every, **look)
            last += list(100 * accuracy[known][-1:])
        seeds = f"{len(runs)} runs, " if len(runs) > 1 else ""
        end = f" ({seeds}ends at {np.mean(last):.1f})" if last else ""
        axes.plot([], [], **look, label=name + end)
    axes.set_xlim(left=0)
    axes.legend(fontsize=9, frameon=False, loc="lower right")
    return figure


def comparison_panels(
    panels: Mapping[str, Mapping[str, tuple[float, float]]],
    *,
    from_zero: Collection[str] = (),
    notes: Mapping[str, Mapping[str, str]] | None = None,
    title: str = "Comparison",
) -> Figure:
    """A panel for each quantity, and in it a row for each run or recipe by name.

    Args:
      panels: quantity with its unit -> name -> (mean, standard deviation over seeds).
        A standard deviation of NaN (one seed) has no error bar. A mean of NaN is not
        known, and an infinite one was never reached.
      from_zero: quantities drawn as bars, which start at 0; the others are dots on an
        axis that starts near the smallest, because such bars would mislead.
      notes: quantity -> name -> text in brackets below its number.
      title: of the figure.
    """
    names = list(next(iter(panels.values())))
    rows = -(-len(panels) // _COLUMNS)
    width = 1.0 + 0.08 * max(map(len, names)) + 3.0 * _COLUMNS
    figure = style.new_figure(width, 0.5 + rows * (1.0 + 0.32 * len(names)), title)
    grid = figure.subplots(rows, _COLUMNS, sharey=True, squeeze=False)
    for axes, (quantity, values) in zip(grid.flat, panels.items(), strict=False):
        own = (notes or {}).get(quantity, {})
        _draw_quantity(axes, quantity, values, quantity in from_zero, own)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    grid[0, 0].set_yticks(range(len(names)), names)
    grid[0, 0].set_ylim(len(names) - 0.4, -0.6)
    return figure


def _draw_quantity(
    axes: Axes,
    quantity: str,
    values: Mapping[str, tuple[float, float]],
    from_zero: bool,
    notes: Mapping[str, str],
) -> None:
    style.label_axes(axes, x=quantity)
    axes.grid(False, axis="y")
    for row, ((name, (mean, std)), color) in enumerate(
        zip(values.items(), style.colors(len(values)), strict=True)
    ):
        if not np.isfinite(mean):
            place, text = axes.get_yaxis_transform(), "never" if mean > 0 else "–"
            axes.text(0.03, row, text, transform=place, va="center", fontsize=9)
            continue
        spread = {"xerr": std, "capsize": 4} if np.isfinite(std) and std > 0 else {}
        if from_zero:
            axes.barh(row, mean, 0.65, color=color, alpha=0.5)
        axes.errorbar(
            mean, row, fmt="none" if from_zero else "o", color=color, **spread
        )
        number = f"{mean:.4g} ± {std:.2g}" if spread else f"{mean:.4g}"
        axes.annotate(
            f"{number}\n({notes[name]})" if name in notes else number,
            (mean + (std if spread else 0), row),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    low, high = axes.get_xlim()
    # Room for the numbers.
    left = 0 if from_zero else low - 0.05 * (high - low)
    axes.set_xlim(left, high + 0.45 * (high - low))
    axes.locator_params(axis="x", nbins=4)


def _draw_curves(axes: Axes, curves: Curves, factor: float) -> None:
    for index, ((name, (x, y)), color) in enumerate(
        zip(curves.items(), style.colors(len(curves)), strict=True)
    ):
        known = np.isfinite(y)
        axes.plot(
            x[known],
            factor * y[known],
            style.LINE_STYLES[index % 4],
            color=color,
            # A line through a single point would be invisible.
            marker="o" if known.sum() == 1 else None,
            linewidth=1.6,
            label=name,
        )
