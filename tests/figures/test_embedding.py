"""Scatter plots of classes, similarities of positions, filters, and feature maps."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from vit_jax.figures import embedding, style

RNG = np.random.default_rng(0)


def test_class_scatter(tmp_path):
    labels = np.array([0, 1, 1, 0])
    points = {"pixels": RNG.normal(size=(4, 2)), "features": RNG.normal(size=(4, 2))}
    figure = embedding.class_scatter(points, labels, ("cat", "dog", "ship"))
    for axes, (name, expected) in zip(figure.axes, points.items(), strict=True):
        assert axes.get_title() == name
        for index, dots in enumerate(axes.collections):
            np.testing.assert_array_equal(dots.get_offsets(), expected[labels == index])
    legend = [text.get_text() for text in figure.axes[-1].get_legend().get_texts()]
    assert legend == ["cat", "dog", "ship"]
    colors = {to_hex(dots.get_facecolor()[0]) for dots in figure.axes[0].collections}
    markers = {dots.get_paths()[0].vertices.tobytes() for dots in axes.collections}
    assert len(colors) == len(markers) == 3
    assert style.save(figure, tmp_path / "s.png").stat().st_size > 3_000
    assert style.save(figure, tmp_path / "s.pdf").stat().st_size > 3_000


@pytest.mark.parametrize("num_classes, named", [(20, 20), (21, 9), (100, 9)])
def test_class_scatter_of_many_classes_names_the_first(num_classes, named):
    points = RNG.normal(size=(2 * num_classes, 2))
    names = [f"c{i}" for i in range(num_classes)]
    labels = np.arange(2 * num_classes) % num_classes
    figure = embedding.class_scatter({"pixels": points}, labels, names)
    (axes,) = figure.axes
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    dots = axes.collections
    colors = [to_hex(d.get_facecolor()[0]) for d in dots]
    shapes = [d.get_paths()[0].vertices.tobytes() for d in dots]
    looks = {*zip(colors[:named], shapes, strict=False)}
    assert legend[:named] == names[:named] and len(looks) == named
    if named < num_classes:
        # No class has the colour of another one, or of the others.
        assert len({*colors}) == named + 1
        assert legend[named:] == [f"{num_classes - named} other classes"]
        np.testing.assert_array_equal(dots[-1].get_offsets(), points[labels >= named])
    # Every class is drawn, and the legend does not leave the figure.
    assert sum(len(d.get_offsets()) for d in dots) == len(points)
    figure.draw_without_rendering()
    assert axes.get_legend().get_window_extent().height < figure.bbox.height


def test_position_similarity(tmp_path):
    similarity = RNG.uniform(-1, 1, size=(2, 3, 2, 3))
    figure = embedding.position_similarity(similarity)
    grid = np.array(figure.axes[:6]).reshape(2, 3)
    for place, axes in np.ndenumerate(grid):
        np.testing.assert_array_equal(axes.images[0].get_array(), similarity[place])
        assert axes.images[0].get_clim() == (-1, 1)
    assert style.save(figure, tmp_path / "s.png").stat().st_size > 3_000


def test_position_similarity_on_a_fine_grid_shows_some_patches():
    similarity = RNG.uniform(-1, 1, size=(2, 16, 2, 16))
    figure = embedding.position_similarity(similarity)
    assert "one in 2 rows and columns" in figure.get_suptitle()
    maps = [axes.images[0].get_array() for axes in figure.axes[:8]]
    np.testing.assert_array_equal(maps, similarity[0, ::2])


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_patch_filters(channels):
    kernel = RNG.normal(size=(4, 4, channels, 5)).astype(np.float32)
    figure = embedding.patch_filters(kernel)
    assert len(figure.axes) == 5
    limit = np.abs(kernel[..., 2]).max()
    image = figure.axes[2].images[0]
    if channels == 3:
        # Zero is mid-grey, and the largest weight just reaches the end of the scale.
        expected = 0.5 + kernel[..., 2] / (2 * limit)
    else:
        expected = kernel[..., 2].mean(axis=-1)
        low, high = image.get_clim()
        assert low == -high and high == pytest.approx(np.abs(expected).max())
    np.testing.assert_allclose(image.get_array(), expected, atol=1e-6)


def test_few_patch_filters_leave_room_for_the_title():
    figure = embedding.patch_filters(np.ones((4, 4, 3, 2), np.float32))
    figure.draw_without_rendering()
    texts = [text for text in figure.texts if text.get_text()]
    assert len(texts) == 2 and all(t.get_window_extent().x0 > 0 for t in texts)


def test_feature_maps(tmp_path):
    image = RNG.integers(256, size=(8, 8, 3), dtype=np.uint8)
    maps = {"stem": RNG.random((8, 8, 16)), "stage 2": RNG.random((4, 4, 2))}
    figure = embedding.feature_maps(image, maps)
    picture, *rest = figure.axes
    np.testing.assert_array_equal(picture.images[0].get_array(), image)
    assert len(rest) == 8 + 2  # as many as there are, eight at most
    np.testing.assert_array_equal(rest[1].images[0].get_array(), maps["stem"][..., 1])
    np.testing.assert_array_equal(
        rest[9].images[0].get_array(), maps["stage 2"][..., 1]
    )
    assert rest[8].get_title(loc="left") == "stage 2 (4 × 4 × 2)"
    assert style.save(figure, tmp_path / "f.png").stat().st_size > 3_000
