"""Reliability diagrams: how well confidence matches accuracy."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vit_jax.figures import style


def reliability_diagrams(
    bins: Mapping[str, Any], *, details: Sequence[str] = (), title: str = "Reliability"
) -> Figure:
    """A column for each `metrics.calibration.ReliabilityBins`, by its name.

    Top: accuracy of each bin of confidence; a calibrated model is on the diagonal.
    Middle: the gap, accuracy - confidence; below 0 the model is too confident. Bottom:
    the number of images in each bin. `details`, one for each column, stand below its
    name and expected calibration error (ECE).
    """
    width = max(0.8 + 4.0 * len(bins), 6.0)  # for a title and the legend
    figure = style.new_figure(width, 6.6, title)
    grid = figure.subplots(
        3,
        len(bins),
        sharex=True,
        sharey="row",
        squeeze=False,
        height_ratios=(3, 1.2, 1),
    )
    for column, (name, group) in enumerate(bins.items()):
        detail = f"\n{details[column]}" if details else ""
        title = f"{name}: ECE {group.calibration_error:.2%}{detail}"
        _draw_column(grid[:, column], title, group)
        if column:
            for axes in grid[:, column]:
                axes.set_ylabel("")
    figure.legend(
        handles=grid[0, 0].get_legend_handles_labels()[0],
        loc="outside lower center",
        ncols=3,
        fontsize=9,
        frameon=False,
    )
    return figure


def _draw_column(column: np.ndarray, title: str, group: Any) -> None:
    left, width = 100 * group.edges[:-1], 100 * np.diff(group.edges)
    shape = {"width": width, "align": "edge", "edgecolor": "white", "linewidth": 0.8}
    top, middle, bottom = column
    accuracy, confidence = 100 * group.accuracy, 100 * group.confidence

    style.label_axes(top, title, y="accuracy (%)")
    top.bar(left, accuracy, color=style.SKY, label="accuracy", **shape)
    top.plot([0, 100], [0, 100], "--", color="0.3", label="perfectly calibrated")
    look = {"color": style.BLUE, "markersize": 4, "clip_on": False}
    top.plot(confidence, accuracy, "o", **look, label="at the bin's mean confidence")
    top.set_ylim(0, 100)

    style.label_axes(middle, y="gap (points)")
    gap = accuracy - confidence
    colors = [style.RED if value < 0 else style.GREEN for value in gap]
    middle.bar(left, gap, color=colors, **shape)
    middle.axhline(0, color="0.3", linewidth=0.8)

    style.label_axes(bottom, x="confidence (%)", y="images")
    bars = bottom.bar(left, group.counts, color=style.GREY, **shape)
    counts = [f"{count:,}" if count else "" for count in group.counts]
    # Numbers of four digits are wider than a bar.
    is_wide = group.counts.max(initial=0) >= 1000
    bottom.bar_label(bars, counts, fontsize=7, padding=2, rotation=90 * is_wide)
    bottom.margins(y=0.7 if is_wide else 0.25)
    bottom.set_xlim(0, 100)
