"""Which classes are taken for which."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from matplotlib.figure import Figure

from vit_jax.figures import style

# Counts can be read in the cells up to about this many classes.
MAX_CLASSES_WITH_TEXT = 20


def confusion_matrix(
    matrix: Int[np.ndarray, "k k"],
    class_names: Sequence[str],
    *,
    title: str = "Confusion matrix",
) -> Figure:
    """Rows: true class, columns: predicted class.

    Colour is the share of the true class, the text the number of examples; there is no
    text for more than `MAX_CLASSES_WITH_TEXT` classes, and none in cells of 0.
    """
    num_classes = len(class_names)
    totals = matrix.sum(axis=1, keepdims=True)
    percent = 100 * matrix / np.maximum(totals, 1)
    size = float(np.clip(2.5 + 0.55 * num_classes, 4.5, 10))
    figure = style.new_figure(size + 0.8, size, title)
    axes = figure.add_subplot()
    image = axes.imshow(percent, cmap="Blues", vmin=0, vmax=100)
    style.label_axes(axes, x="predicted class", y="true class")
    axes.grid(False)
    style.label_classes(axes.xaxis, class_names, rotation=45)
    style.label_classes(axes.yaxis, class_names)
    bar = figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label("share of the true class (%)", fontsize=10)
    if num_classes <= MAX_CLASSES_WITH_TEXT:
        for row, column in zip(*np.nonzero(matrix), strict=True):
            axes.text(
                column,
                row,
                str(matrix[row, column]),
                ha="center",
                va="center",
                fontsize=9 if num_classes <= 10 else 6,
                color="white" if percent[row, column] > 50 else "black",
            )
    return figure


def top_confusions(
    confusions: Sequence[tuple[int, int, int]],
    class_names: Sequence[str],
    *,
    title: str = "Most frequent mistakes",
) -> Figure:
    """A table of (true class, predicted class, number of examples), in this order."""
    figure = style.new_figure(4.6, 0.9 + 0.28 * (len(confusions) + 1), title)
    axes = figure.add_subplot()
    axes.set_axis_off()
    if not confusions:
        axes.text(0.5, 0.5, "no mistakes", ha="center", fontsize=10)
        return figure
    table = axes.table(
        [
            [class_names[true], class_names[predicted], str(count)]
            for true, predicted, count in confusions
        ],
        colLabels=["true class", "predicted as", "images"],
        colWidths=[0.4, 0.4, 0.2],
        cellLoc="left",
        colLoc="left",
        bbox=(0, 0, 1, 1),
    )
    table.auto_set_font_size(False)
    table.set_fontsize(10)
    for (row, column), cell in table.get_celld().items():
        cell.set_linewidth(0)
        cell.set_facecolor("0.85" if row == 0 else "0.96" if row % 2 else "white")
        if column == 2:
            cell.set_text_props(ha="right")
        if row == 0:
            cell.set_text_props(fontweight="bold")
    return figure
