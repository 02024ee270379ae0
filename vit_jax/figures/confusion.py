"""Which classes are predicted as which others."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vit_jax.figures import style


def confusion_matrix(
    matrix: Int[np.ndarray, "k k"],
    class_names: Sequence[str],
    *,
    title: str = "Confusion matrix",
) -> Figure:
    """Rows: true class, columns: predicted class.

    Colour is the fraction of the true class. The text is the number of examples above
    that fraction in per cent; there is no text for more than `style.MAX_CLASSES`
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
    if num_classes <= style.MAX_CLASSES:
        font_size = 8 if num_classes <= 10 else 5
        look = {"ha": "center", "va": "center", "fontsize": font_size}
        for row, column in zip(*np.nonzero(matrix), strict=True):
            text = f"{matrix[row, column]}\n{percent[row, column]:.1f}%"
            # Where white has the larger contrast.
            color = "white" if percent[row, column] > 70 else "black"
            axes.text(column, row, text, color=color, **look)
    return figure


def top_confusions(
    one_way: Sequence[tuple[int, int, int, float]],
    both_ways: Sequence[tuple[int, int, int, float]],
    class_names: Sequence[str],
    num_errors: int,
) -> Figure:
    """Bars of confused pairs of classes, in the order given.

    Args:
      one_way: (true class, predicted class, number of examples, their fraction of all
        errors), on the left; at least one.
      both_ways: the same with both directions added up, on the right.
      class_names: in the order of the classes.
      num_errors: of all pairs.
    """
    num_rows = max(len(one_way), len(both_ways))
    longest = max(map(len, style.short_names(class_names, 18)))
    width = 7.0 + 0.3 * longest
    title = f"Most frequent of {num_errors:,} mistakes"
    figure = style.new_figure(width, 1.4 + 0.3 * num_rows, title)
    left, right = figure.subplots(1, 2)
    _draw_pairs(left, one_way, class_names, "true class → predicted class", "→")
    _draw_pairs(right, both_ways, class_names, "both directions added up", "↔")
    for axes in (left, right):
        axes.set_ylim(num_rows - 0.4, -0.6)
    return figure


def _draw_pairs(
    axes: Axes,
    pairs: Sequence[tuple[int, int, int, float]],
    class_names: Sequence[str],
    title: str,
    arrow: str,
) -> None:
    style.label_axes(axes, title, "images")
    axes.grid(False, axis="y")
    short = style.short_names(class_names, 18)
    names = [f"{short[a]} {arrow} {short[b]}" for a, b, _, _ in pairs]
    counts = [count for _, _, count, _ in pairs]
    bars = axes.barh(range(len(pairs)), counts, color=style.BLUE)
    # Each pair of many classes has about 1% of the errors, or less.
    digits = 0 if len(class_names) <= style.MAX_CLASSES else 2
    texts = [f"{count} ({part:.{digits}%} of errors)" for _, _, count, part in pairs]
    axes.bar_label(bars, texts, fontsize=9, padding=3)
    axes.set_yticks(range(len(pairs)), names, fontsize=9, parse_math=False)
    axes.set_xlim(0, 1.6 * max(counts))
    axes.xaxis.get_major_locator().set_params(integer=True)
