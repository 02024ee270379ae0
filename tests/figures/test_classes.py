"""Figures of classes: confusions, bars, ROC curves, class counts."""

import math
import types

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer

from vit_jax.figures import confusion, dataset, per_class, roc, style
from vit_jax.metrics import roc as roc_metrics

NAMES = ("cat", "dog", "ship")
MATRIX = np.array([[8, 2, 0], [5, 4, 1], [0, 0, 30]])


def test_confusion_matrix(tmp_path):
    figure = confusion.confusion_matrix(MATRIX, NAMES)
    axes = figure.axes[0]
    texts = {t.get_position()[::-1]: t.get_text() for t in axes.texts}
    # The count above its fraction of the row; nothing in cells of 0.
    assert texts == {
        (0, 0): "8\n80.0%",
        (0, 1): "2\n20.0%",
        (1, 0): "5\n50.0%",
        (1, 1): "4\n40.0%",
        (1, 2): "1\n10.0%",
        (2, 2): "30\n100.0%",
    }
    # Colour: shares of each row, on one scale for all figures.
    np.testing.assert_allclose(
        axes.images[0].get_array(), [[80, 20, 0], [50, 40, 10], [0, 0, 100]]
    )
    assert axes.images[0].get_clim() == (0, 100)
    for ticks in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert tuple(tick.get_text() for tick in ticks) == NAMES
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted class", "true class")
    assert style.save(figure, tmp_path / "m.png").stat().st_size > 5_000


def test_confusion_matrix_of_100_classes_and_of_an_absent_class(tmp_path):
    names = tuple(f"class {i}" for i in range(100))
    matrix = np.eye(100, dtype=np.int64) * 50
    matrix[3] = 0
    figure = confusion.confusion_matrix(matrix, names)
    assert not figure.axes[0].texts
    assert figure.axes[0].images[0].get_array()[3].sum() == 0
    assert style.save(figure, tmp_path / "m.png").stat().st_size > 5_000


def test_top_confusions():
    one_way = [(1, 0, 5, 0.625), (0, 1, 2, 0.25)]
    both_ways = [(0, 1, 7, 0.875)]
    left, right = confusion.top_confusions(one_way, both_ways, NAMES).axes
    assert [bar.get_width() for bar in left.patches] == [5, 2]
    assert [bar.get_width() for bar in right.patches] == [7]
    names = [tick.get_text() for tick in left.get_yticklabels()]
    assert names == ["dog → cat", "cat → dog"]
    texts = [text.get_text() for text in left.texts]
    assert texts == ["5 (62% of errors)", "2 (25% of errors)"]
    assert left.yaxis_inverted() and left.get_xlabel() == "images"
    assert left.get_title() == "true class → predicted class"


@pytest.mark.parametrize("num_classes", [10, 20])
def test_numbers_fit_into_their_cells(num_classes):
    matrix = np.full((num_classes, num_classes), 1000)
    figure = confusion.confusion_matrix(matrix, ["automobile"] * num_classes)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    cell = axes.get_window_extent().width / num_classes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == num_classes**2
    assert max(max(box.width, box.height) for box in boxes) < 0.95 * cell


def test_accuracy_bands():
    names = ("a", "b", "c", "d", "e")
    accuracy = np.array([0.9, 0.8999, 0.8, 0.7999, np.nan])
    axes = per_class.accuracy_bars(accuracy, names).axes[0]
    bars = axes.patches
    assert [round(bar.get_height(), 2) for bar in bars] == [90, 89.99, 80, 79.99]
    green, orange, red = style.GREEN, style.ORANGE, style.RED
    assert [to_hex(bar.get_facecolor()).upper() for bar in bars] == [
        green,
        orange,
        orange,
        red,
    ]
    # The bands differ without colour too.
    assert [bar.get_hatch() for bar in bars] == ["", "//", "//", "xx"]
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["90.0", "90.0", "80.0", "80.0", "none"]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["90% or more", "80% to 90%", "below 80%"]


def test_accuracies_have_error_bars():
    accuracy = np.array([0.9, 0.5, np.nan])
    intervals = np.array([[0.8, 0.95], [0.4, 0.6], [np.nan, np.nan]])
    axes = per_class.accuracy_bars(accuracy, NAMES, intervals=intervals).axes[0]
    errors = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    ends = [error.lines[2][0].get_segments()[0][:, 1] for error in errors]
    np.testing.assert_allclose(ends, [[80, 95], [40, 60]])


def test_grouped_bars():
    test, subset = np.array([0.5, 0.6, 0.7]), np.array([0.4, np.nan, 0.8])
    axes = per_class.grouped_bars(
        {"test": test, "subset_test": subset}, NAMES, title="Two splits"
    ).axes[0]
    first, second = axes.containers[:2]
    np.testing.assert_allclose([bar.get_height() for bar in first], 100 * test)
    np.testing.assert_allclose([bar.get_height() for bar in second], 100 * subset)
    # Side by side, both over the tick of their class.
    for index, (left, right) in enumerate(zip(first, second, strict=True)):
        assert left.get_x() + left.get_width() == pytest.approx(index)
        assert right.get_x() == pytest.approx(index)
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["test", "subset_test"]
    # Told apart on a printer without colour, too.
    assert len({bars[0].get_hatch() for bars in axes.containers}) == 2


def test_precision_recall_f1_bars():
    scores = np.random.default_rng(0).random((3, 3))
    axes = per_class.precision_recall_f1_bars(*scores, NAMES).axes[0]
    for container, label, values in zip(
        axes.containers, ("precision", "recall", "F1"), scores, strict=True
    ):
        assert container.get_label() == label
        np.testing.assert_allclose(
            [bar.get_height() for bar in container], 100 * values
        )


def test_roc_curves(tmp_path):
    logits = np.array([[3, 1, 0], [0, 2, 1], [2, 1, 1], [0, 1, 0]], np.float32)
    curves = roc_metrics.one_vs_rest(logits, np.array([0, 1, 1, 0], np.int32))
    macro = roc_metrics.macro_auc(curves)
    figure = roc.roc_curves(curves, NAMES, macro)
    for axes in figure.axes:
        assert len(axes.lines) == 4  # three classes and chance
        np.testing.assert_allclose(
            axes.lines[1].get_xdata(), 100 * curves[1].false_positive_rate
        )
        np.testing.assert_allclose(
            axes.lines[1].get_ydata(), 100 * curves[1].true_positive_rate
        )
    assert figure.axes[0].get_title() == f"mean AUC {macro:.4f}"
    legend = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert legend[0] == f"cat ({curves[0].auc:.4f})"
    assert legend[2] == "ship (no curve)" and math.isnan(curves[2].auc)
    assert style.save(figure, tmp_path / "roc.png").stat().st_size > 10_000


def test_roc_curves_of_100_classes_have_a_short_legend():
    line = np.array([0.0, 1.0])
    curve = types.SimpleNamespace(
        false_positive_rate=line, true_positive_rate=line, auc=0.5
    )
    figure = roc.roc_curves([curve] * 100, [f"c{i}" for i in range(100)], 0.5)
    assert len(figure.axes[0].lines) == 101
    assert len(figure.axes[1].get_legend().get_texts()) == 1


def test_class_counts():
    counts = {"train": np.array([5, 6, 7]), "test": np.array([1, 2, 1000])}
    axes = dataset.class_counts(counts, NAMES).axes[0]
    for container, numbers in zip(axes.containers, counts.values(), strict=True):
        assert [bar.get_height() for bar in container] == list(numbers)
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["train (18)", "test (1,003)"]


@pytest.mark.parametrize("channels", [1, 3])
def test_channel_histograms(tmp_path, channels):
    counts = np.zeros((channels, 256), np.int64)
    counts[:, 10], counts[:, 200] = 1, 3
    figure = dataset.channel_histograms(
        counts, np.full(channels, 152.5), np.full(channels, 82.3)
    )
    names = ["red", "green", "blue"] if channels == 3 else ["grey"]
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [f"{name}: mean 152.5, std 82.3" for name in names]
    for axes in figure.axes:
        assert axes.lines[0].get_xdata()[0] == 152.5
        (area,) = axes.collections
        assert area.get_datalim(axes.transData).ymax == 75  # per cent
    assert style.save(figure, tmp_path / "h.png").stat().st_size > 3_000
