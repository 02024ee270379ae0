"""Figures of one prediction, and of several runs."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer

from vit_jax.figures import compare, predict, style

IMAGE = np.random.default_rng(0).integers(256, size=(8, 8, 3), dtype=np.uint8)


@pytest.mark.parametrize("with_map", [False, True])
def test_prediction(tmp_path, with_map):
    heat_map = np.random.default_rng(1).random((4, 4)) if with_map else None
    figure = predict.prediction(
        IMAGE,
        ["cat", "dog", "ship"],
        [0.9, 0.07, 0.01],
        heat_map=heat_map,
        sentence="Fairly sure: cat.",
        title="photo.jpg",
    )
    picture, *overlay, chart = figure.axes
    np.testing.assert_array_equal(picture.images[0].get_array(), IMAGE)
    assert len(overlay) == with_map
    if with_map:
        np.testing.assert_array_equal(overlay[0].images[1].get_array(), heat_map)
    np.testing.assert_allclose([bar.get_width() for bar in chart.patches], [90, 7, 1])
    assert [tick.get_text() for tick in chart.get_yticklabels()] == [
        "cat",
        "dog",
        "ship",
    ]
    assert chart.yaxis_inverted()  # the likeliest is on top
    assert [text.get_text() for text in chart.texts] == ["90.0", "7.0", "1.0"]
    assert chart.get_title() == "Fairly sure: cat."
    assert figure.get_suptitle() == "photo.jpg"
    assert style.save(figure, tmp_path / "p.png").stat().st_size > 3_000


def test_accuracy_curves(tmp_path):
    epochs, accuracy = np.array([1.0, 2.0, 3.0]), np.array([0.3, np.nan, 0.5])
    by_epoch = {"vit": (epochs, accuracy), "resnet": (epochs, accuracy + 0.1)}
    by_seconds = {name: (10 * x, y) for name, (x, y) in by_epoch.items()}
    figure = compare.accuracy_curves(by_epoch, by_seconds, split="test")
    left, right = figure.axes
    np.testing.assert_array_equal(left.lines[0].get_xdata(), [1, 3])
    np.testing.assert_array_equal(right.lines[1].get_xdata(), [10, 30])
    np.testing.assert_allclose(right.lines[1].get_ydata(), [40, 60])
    assert left.get_ylabel() == "test accuracy (%)"
    assert right.get_xlabel() == "training time (seconds)"
    legend = [text.get_text() for text in right.get_legend().get_texts()]
    assert legend == ["vit", "resnet"]
    # A run looks the same on both sides.
    for a, b in zip(left.lines, right.lines, strict=True):
        assert a.get_color() == b.get_color()
        assert a.get_linestyle() == b.get_linestyle()
    assert style.save(figure, tmp_path / "c.png").stat().st_size > 5_000


@pytest.mark.parametrize("from_zero", [True, False])
def test_mean_bars(tmp_path, from_zero):
    figure = compare.mean_bars(
        {"vit": 86.3, "resnet": 93.6, "cct": 95.2},
        {"vit": 0.25, "resnet": np.nan},
        unit="test accuracy (%)",
        title="Three recipes",
        from_zero=from_zero,
    )
    axes = figure.axes[0]
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["86.3 ± 0.25", "93.6", "95.2"]
    error = next(c for c in axes.containers if isinstance(c, ErrorbarContainer))
    (segment,) = error.lines[2][0].get_segments()
    np.testing.assert_allclose(segment[:, 0], (86.05, 86.55))
    if from_zero:
        assert [bar.get_width() for bar in axes.patches] == [86.3, 93.6, 95.2]
        assert {to_hex(bar.get_facecolor()).upper() for bar in axes.patches} == {
            style.SKY
        }
        assert axes.get_xlim()[0] == 0
    else:
        assert not axes.patches
        assert axes.get_xlim()[0] > 80
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [
        "vit",
        "resnet",
        "cct",
    ]
    assert style.save(figure, tmp_path / "b.png").stat().st_size > 3_000
