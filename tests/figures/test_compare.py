"""Figures of several runs."""

import itertools

import numpy as np
from matplotlib.container import ErrorbarContainer

from vit_jax.figures import compare, style


def test_training_curves(tmp_path):
    epochs, values = np.array([1.0, 2.0, 3.0]), np.array([0.3, np.nan, 0.5])
    runs = {"vit": (epochs, values), "resnet": (epochs, values + 0.1)}
    one = {"vit": (epochs[:1], values[:1]), "resnet": (epochs[:0], values[:0])}
    splits = {"train": runs, "val": one}
    figure = compare.training_curves(splits, splits)
    loss, _, accuracy, single = figure.axes
    np.testing.assert_array_equal(loss.lines[0].get_xdata(), [1, 3])
    np.testing.assert_allclose(loss.lines[1].get_ydata(), [0.4, 0.6])
    np.testing.assert_allclose(accuracy.lines[1].get_ydata(), [40, 60])
    assert (loss.get_ylabel(), accuracy.get_ylabel()) == ("loss (nats)", "accuracy (%)")
    assert [axes.get_title() for axes in figure.axes] == ["train", "val"] * 2
    assert {axes.get_xlabel() for axes in figure.axes} == {"epoch"}
    legend = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert legend == ["vit", "resnet"]
    # A run has the same style in every panel, and a single evaluation is visible.
    for a, b in zip(loss.lines, accuracy.lines, strict=True):
        assert a.get_color() == b.get_color()
        assert a.get_linestyle() == b.get_linestyle()
    assert single.lines[0].get_marker() == "o" != loss.lines[0].get_marker()
    assert style.save(figure, tmp_path / "c.png").stat().st_size > 5_000


def test_accuracy_over_time(tmp_path):
    seconds, accuracy = np.array([1.0, 2.0, 3.0]), np.array([0.3, 0.4, np.nan])
    groups = {
        "vit": [(seconds, accuracy), (2 * seconds, accuracy + 0.1)],
        "resnet": [(seconds, accuracy)],
    }
    figure = compare.accuracy_over_time(groups)
    (axes,) = figure.axes
    first, second, _, other, _ = axes.lines
    np.testing.assert_array_equal(second.get_xdata(), [2, 4])
    np.testing.assert_allclose(second.get_ydata(), [40, 50])
    assert first.get_color() == second.get_color() != other.get_color()
    assert first.get_marker() != other.get_marker()
    assert axes.get_xlabel() == "training time (seconds)" and axes.get_xlim()[0] == 0
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["vit (2 runs, ends at 45.0)", "resnet (ends at 40.0)"]
    assert style.save(figure, tmp_path / "t.png").stat().st_size > 5_000


def test_a_legend_of_many_recipes_covers_no_line():
    curve = np.array([1.0, 2.0, 3.0]), np.array([0.3, 0.4, 0.5])
    figure = compare.accuracy_over_time({"x" * 50 + str(i): [curve] for i in range(12)})
    figure.draw_without_rendering()
    (axes,) = figure.axes
    legend = axes.get_legend().get_window_extent()
    assert axes.get_window_extent().x1 <= legend.x0 + 1 and legend.x1 <= figure.bbox.x1


def test_a_run_without_evaluations_has_no_line():
    none = np.array([])
    some = np.array([1.0, 2.0]), np.array([0.3, 0.4])
    figure = compare.accuracy_over_time({"vit": [some], "probe": [(none, none)]})
    (axes,) = figure.axes
    legend = axes.get_legend()
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["vit (ends at 40.0)", "probe (no evaluations)"]
    shown = [(line.get_linestyle(), line.get_marker()) for line in legend.get_lines()]
    assert shown[0] == ("-", "o") and shown[1] == ("None", "none")


def test_accuracy_chart(tmp_path):
    nan = np.nan
    accuracies = {
        "vit": (0.863, 0.85, 0.87),
        "resnet": (0.936, 0.93, 0.94),
        "broken": (nan, nan, nan),
    }
    columns = {
        name: ["1.1", "0.56", "–"]
        for name in ("GFLOPs", "parameters\n(M)", "training\n(s)", "F1 of the\nworst")
    }
    figure = compare.accuracy_chart(accuracies, columns, title="Test accuracy")
    axes, table = figure.axes
    errors = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    ends = [error.lines[2][0].get_segments()[0][:, 0] for error in errors]
    np.testing.assert_allclose(ends, [[85, 87], [93, 94]])
    assert [text.get_text() for text in axes.texts] == ["86.30", "93.60"]
    texts = [text.get_text() for text in table.texts]
    assert texts[:4] == ["GFLOPs", "1.1", "0.56", "–"] and len(texts) == 16
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    assert names == ["vit", "resnet", "broken"] and axes.yaxis_inverted()
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in table.texts]
    assert min(box.x0 for box in boxes) > axes.get_window_extent().x1
    assert max(box.x1 for box in boxes) < figure.bbox.width
    # Headings keep apart.
    heads = boxes[::4]
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(heads))
    assert style.save(figure, tmp_path / "b.png").stat().st_size > 3_000
