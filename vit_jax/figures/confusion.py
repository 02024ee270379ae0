"""Which classes are predicted as which others."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vit_jax.figures import style

# Numbers can be read in the cells up to about this many classes.
MAX_CLASSES_WITH_TEXT = 20


def confusion_matrix(
    matrix: Int[np.ndarray, "k k"],
    class_names: Sequence[str],
    *,
    title: str = "Confusion matrix",
) -> Figure:
    """Rows: true class, columns: predicted class.

    Colour is the fraction of the true class. The text is the number of examples above
    that fraction in per cent; there is no text for more than `MAX_CLASSES_WITH_TEXT`
    classes, and none in cells of 0.
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
    bar.set_label("fraction of the true class (%)", fontsize=10)
    if num_classes <= MAX_CLASSES_WITH_TEXT:
        for row, column in zip(*np.nonzero(matrix), strict=True):
            axes.text(
                column,
                row,
                f"{matrix[row, column]}\n{percent[row, column]:.1f}%",
                ha="center",
                va="center",
                fontsize=8 if num_classes <= 10 else 5,
                color="white" if percent[row, column] > 50 else "black",
            )
    return figure


def top_confusions(
    one_way: Sequence[tuple[int, int, int, float]],
    both_ways: Sequence[tuple[int, int, int, float]],
    class_names: Sequence[str],
) -> Figure:
    """Two tables of confused pairs of classes, in the order given.

    Args:
      one_way: (true class, predicted class, number of examples, their fraction of all
        errors), on the left.
      both_ways: the same with both directions added up, on the right.
      class_names: in the order of the classes.
    """
    num_rows = 1 + max(len(one_way), len(both_ways))
    figure = style.new_figure(11, 1.2 + 0.28 * num_rows, "Most frequent mistakes")
    left, right = figure.subplots(1, 2)
    heads = ("true class", "predicted as")
    _draw_pairs(left, one_way, class_names, "One direction", heads)
    heads = ("class", "other class")
    _draw_pairs(right, both_ways, class_names, "Both directions", heads)
    return figure


def _draw_pairs(
    axes: Axes,
    pairs: Sequence[tuple[int, int, int, float]],
    class_names: Sequence[str],
    title: str,
    heads: tuple[str, str],
) -> None:
    axes.set_axis_off()
    axes.set_title(title, fontsize=11)
    if not pairs:
        axes.text(0.5, 0.5, "no mistakes", ha="center", fontsize=10)
        return
    table = axes.table(
        [
            [class_names[first], class_names[second], str(count), f"{fraction:.1%}"]
            for first, second, count, fraction in pairs
        ],
        colLabels=[*heads, "images", "of all errors"],
        colWidths=[0.3, 0.3, 0.16, 0.24],
        cellLoc="left",
        colLoc="left",
        bbox=(0, 0, 1, 1),
    )
    table.auto_set_font_size(False)
    table.set_fontsize(10)
    for (row, column), cell in table.get_celld().items():
        cell.set_linewidth(0)
        cell.set_facecolor("0.85" if row == 0 else "0.96" if row % 2 else "white")
        if column >= 2:
            cell.set_text_props(ha="right")
        if row == 0:
            cell.set_text_props(fontweight="bold")
