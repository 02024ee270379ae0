"""The figure of one prediction."""

import numpy as np
import pytest
from matplotlib.text import Text

from vit_jax.figures import predict, style

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
        picture, heat_axes, both, chart, bar = figure.axes
        grey, above = both.images
        assert grey.get_array().shape == PHOTO.shape[:2]
        np.testing.assert_array_equal(above.get_array(), heat_map)
        assert above.get_extent() == list(grey.get_extent())
        assert bar.get_ylabel() == "% of the map's\nhighest value"
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
    assert chart.get_title(loc="right") == "Fairly sure: cat."
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


def test_a_sentence_with_a_long_name_stays_in_the_figure():
    name = "a_bird_photographed_from_above_in_the_early_morning_by_the_river"
    sentence = f"very sure: {name} (99.8%)"
    figure = predict.prediction(PHOTO, [name], [0.998], sentence=sentence)
    figure.draw_without_rendering()
    (title,) = (t for t in figure.findobj(Text) if t.get_text().endswith("(99.8%)"))
    extent = title.get_window_extent()
    assert figure.bbox.x0 <= extent.x0 and extent.x1 <= figure.bbox.x1
