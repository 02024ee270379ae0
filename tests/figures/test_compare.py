"""Figures of several runs."""

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


def test_comparison_panels(tmp_path):
    nan = np.nan
    panels = {
        "test accuracy (%)": {"vit": (86.3, 0.25), "resnet": (93.6, nan)},
        "epoch time (s)": {"vit": (3.0, 0.5), "resnet": (4.0, nan)},
        "epochs to 90%": {"vit": (nan, nan), "resnet": (5.0, 0.0)},
        "epochs to 95%": {"vit": (np.inf, nan), "resnet": (9.0, nan)},
        "loss": {"vit": (0.4, nan), "resnet": (0.2, nan)},
    }
    notes = {"loss": {"vit": "cat"}}
    figure = compare.comparison_panels(
        panels, from_zero=["epoch time (s)"], notes=notes
    )
    dots, bars, unknown, never, noted, empty = figure.axes
    assert [axes.get_xlabel() for axes in figure.axes[:5]] == list(panels)
    assert [text.get_text() for text in never.texts] == ["never", "9"]
    assert [text.get_text() for text in noted.texts] == ["0.4\n(cat)", "0.2"]
    assert [text.get_text() for text in dots.texts] == ["86.3 ± 0.25", "93.6"]
    assert [text.get_text() for text in unknown.texts] == ["–", "5"]
    error = next(c for c in dots.containers if isinstance(c, ErrorbarContainer))
    (segment,) = error.lines[2][0].get_segments()
    np.testing.assert_allclose(segment[:, 0], (86.05, 86.55))
    assert [bar.get_width() for bar in bars.patches] == [3, 4]
    assert bars.get_xlim()[0] == 0 and not dots.patches and dots.get_xlim()[0] > 80
    names = [tick.get_text() for tick in dots.get_yticklabels()]
    assert names == ["vit", "resnet"] and dots.yaxis_inverted()
    assert not empty.axison
    assert style.save(figure, tmp_path / "b.png").stat().st_size > 3_000
