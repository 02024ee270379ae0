"""Scores of each class, as bars."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int, Shaped
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from vit_jax.figures import style

# (least accuracy in per cent, colour, hatch, name), best band first.
BANDS = (
    (90, style.GREEN, "", "90% or more"),
    (80, style.ORANGE, "//", "80% to 90%"),
    (-np.inf, style.RED, "xx", "below 80%"),
)
# Hatches of bars side by side, so that they differ without colour, too.
HATCHES = ("", "///", "...", "xxx")


def accuracy_bars(
    accuracy: Float[np.ndarray, " k"],
    class_names: Sequence[str],
    *,
    intervals: Float[np.ndarray, "k 2"],
    title: str = "Accuracy by class",
) -> Figure:
    """One bar for each class of `style.shown_classes`, coloured and hatched by band.

    A class without examples (NaN) is marked "none" and has no bar. `intervals` are the
    ends of each accuracy's 95% interval, drawn as error bars.
    """
    figure, axes, shown = _bar_axes(
        ("accuracy", accuracy), class_names, title, "accuracy (%)"
    )
    for index, percent in enumerate(100 * accuracy[shown]):
        if np.isnan(percent):
            axes.text(
                index, 1, "none", ha="center", va="bottom", rotation=90, fontsize=8
            )
            continue
        color, hatch = next(band[1:3] for band in BANDS if percent >= band[0])
        bars = axes.bar(
            index, percent, 0.75, color=color, hatch=hatch, edgecolor="white"
        )
        ends = np.abs(100 * intervals[shown[index]] - percent)[:, None]
        axes.errorbar(
            index, percent, ends, fmt="none", color="0.2", capsize=3, linewidth=1
        )
        # Inside, because an error bar stands on top.
        (text,) = axes.bar_label(bars, fmt="%.1f", fontsize=8, label_type="center")
        text.set_bbox({"facecolor": "white", "linewidth": 0, "pad": 1})
    legend = [
        Patch(facecolor=color, hatch=hatch, edgecolor="white", label=name)
        for _, color, hatch, name in BANDS
    ]
    style.legend_above(axes, 3, handles=legend)
    return figure


def grouped_bars(
    groups: Mapping[str, Shaped[np.ndarray, " k"]],
    class_names: Sequence[str],
    *,
    title: str,
    unit: str = "accuracy (%)",
    by: tuple[str, Shaped[np.ndarray, " k"]],
    intervals: Sequence[Float[np.ndarray, "k 2"]] | None = None,
) -> Figure:
    """Up to four bars for each class, such as the accuracy on two splits.

    Numbers are shown in the `unit`, fractions in per cent. The classes are those of
    `style.shown_classes`, `by` the name and the values of a score. `intervals` are the
    ends of each group's 95% intervals, drawn as error bars.
    """
    figure, axes, shown = _bar_axes(by, class_names, title, unit)
    factor = 100 if unit.endswith("(%)") else 1
    width = 0.8 / len(groups)
    for index, (name, values) in enumerate(groups.items()):
        values = values[shown]
        places = np.arange(len(shown)) + (index + 0.5) * width - 0.4
        look = {"color": style.PALETTE[index], "hatch": HATCHES[index]}
        look |= {"edgecolor": "white", "label": name}
        bars = axes.bar(places, factor * values, width, **look)
        if intervals is not None:
            ends = np.abs(100 * intervals[index][shown] - 100 * values[:, None]).T
            axes.errorbar(
                places, 100 * values, ends, fmt="none", color="0.2", linewidth=1
            )
        elif factor > 1 and len(shown) <= 10 and len(groups) == 2:
            axes.bar_label(bars, fmt="%.0f", fontsize=8, padding=1)
    style.legend_above(axes, 4 if len(shown) > 4 else 2)
    return figure


def _bar_axes(
    by: tuple[str, Shaped[np.ndarray, " k"]],
    class_names: Sequence[str],
    title: str,
    unit: str,
) -> tuple[Figure, Axes, Int[np.ndarray, " shown"]]:
    """An empty figure, its axes, and the classes that have a place on the x axis."""
    shown, note = style.shown_classes(*by)
    width = float(np.clip(2 + 0.7 * len(shown), 5, 14))
    figure = style.new_figure(width, 4.2, title + note)
    axes = figure.add_subplot()
    style.label_axes(axes, y=unit)
    axes.grid(False, axis="x")
    style.label_classes(axes.xaxis, [class_names[i] for i in shown], rotation=45)
    axes.set_xlim(-0.6, len(shown) - 0.4)
    if unit.endswith("(%)"):
        axes.set_ylim(0, 105)
        axes.set_yticks(range(0, 101, 20))
    return figure, axes, shown
