"""Figures of one prediction, and of several runs."""

import itertools

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

from vit_jax.figures import compare, predict, style

PHOTO = np.random.default_rng(0).integers(256, size=(60, 90, 3), dtype=np.uint8)


@pytest.mark.parametrize("with_map", [False, True])
def test_prediction(tmp_path, with_map):
    heat_map = np.random.default_rng(1).random((4, 4)) if with_map else None
    figure = predict.prediction(
        PHOTO,
        ["cat", "dog", "ship"],
        [0.9, 0.07, 0.01],
        heat_map=heat_map,
        sentence="Fairly sure: cat.",
        title="photo.jpg",
    )
    if with_map:
        picture, heat_axes, chart, bar = figure.axes
        assert bar.get_ylabel() == "% of the map's highest value"
        (heat,) = heat_axes.images
        np.testing.assert_array_equal(heat.get_array(), heat_map)
        # The model saw the whole picture, so the map has its size.
        assert heat.get_extent() == list(picture.images[0].get_extent())
        assert heat.get_interpolation() == "nearest" and heat.get_alpha() is None
        assert heat.get_clim() == (0, heat_map.max())
    else:
        picture, chart = figure.axes
    np.testing.assert_array_equal(picture.images[0].get_array(), PHOTO)
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


@pytest.mark.parametrize("shape", [(800, 1200), (1200, 500), (90, 1200)])
def test_a_prediction_shows_each_pixel_of_the_photo(tmp_path, shape):
    photo = np.zeros((*shape, 3), np.uint8)
    figure = predict.prediction(photo, ["cat"], [0.9], heat_map=np.ones((2, 2)))
    style.save(figure, tmp_path / "p.png")
    panel = figure.axes[0].get_window_extent()
    assert panel.width >= shape[1]
    assert panel.width / panel.height == pytest.approx(shape[1] / shape[0], rel=0.01)


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
    # A run looks the same everywhere, and a single evaluation is seen.
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
