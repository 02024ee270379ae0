"""Figures of attention, and of how faithful heat maps are."""

import numpy as np
import pytest

from vit_jax.figures import attention, style

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(256, size=(2, 8, 8, 3), dtype=np.uint8)


def test_overlays(tmp_path):
    maps = {"last block": RNG.random((2, 4, 4)), "rollout": RNG.random((2, 4, 4))}
    figure = attention.overlays(IMAGES, maps, ["cat", "dog"])
    *panels, bar = figure.axes
    assert bar.get_ylabel() == "% of the map's\nhighest value"
    grid = np.array(panels).reshape(2, 4)
    over = "last block\nover the image"
    titles = [axes.get_title() for axes in grid[1]]
    assert titles == ["dog", over, "last block", "rollout"]
    grey, above = grid[1, 1].images
    brightness = IMAGES[1].mean(axis=2).round()
    np.testing.assert_array_equal(grey.get_array(), brightness)
    np.testing.assert_array_equal(above.get_array(), maps["last block"][1])
    # What the map does not mark stays to be seen.
    np.testing.assert_allclose(above.get_alpha().max(), 0.75)
    share = maps["last block"][1] / maps["last block"][1].max()
    np.testing.assert_allclose(above.get_alpha(), 0.75 * share)
    assert above.get_extent() == list(grey.get_extent())
    picture, (heat,) = grid[1, 0].images[0], grid[1, 3].images
    np.testing.assert_array_equal(picture.get_array(), IMAGES[1])
    np.testing.assert_array_equal(heat.get_array(), maps["rollout"][1])
    # Beside the image and as large, in patches, and in the colours of the bar.
    assert heat.get_extent() == list(picture.get_extent())
    assert heat.get_alpha() is None and heat.get_interpolation() == "nearest"
    np.testing.assert_array_equal(heat.cmap(0.7), bar_colors(figure)(0.7))
    assert heat.get_clim() == (0, maps["rollout"][1].max())
    assert style.save(figure, tmp_path / "a.png").stat().st_size > 3_000


def test_a_map_of_zeros_is_drawn(tmp_path):
    figure = attention.overlays(IMAGES[:1], {"none": np.zeros((1, 4, 4))}, ["cat"])
    assert style.save(figure, tmp_path / "a.png").stat().st_size > 1_000


def test_by_block_and_head():
    maps = RNG.random((3, 2, 4, 4))
    figure = attention.by_block_and_head(IMAGES[0], maps)
    whole = np.array(figure.axes[:-1]).reshape(3, 3)
    grid = whole[:, 1:]
    np.testing.assert_array_equal(whole[0, 0].images[0].get_array(), IMAGES[0])
    for place, axes in np.ndenumerate(grid):
        np.testing.assert_array_equal(axes.images[0].get_array(), maps[place])
    assert [axes.get_title() for axes in grid[0]] == ["head 1", "head 2"]
    assert [axes.get_ylabel() for axes in grid[:, 0]] == [
        f"block {i}" for i in (1, 2, 3)
    ]


def test_the_name_of_the_scale_is_not_cut_off_beside_one_row():
    title = "Attention by block and head\ntrue 0, predicted 0 (72%)"
    figure = attention.by_block_and_head(
        IMAGES[0], RNG.random((1, 4, 4, 4)), title=title
    )
    figure.draw_without_rendering()
    name = figure.axes[-1].yaxis.label.get_window_extent()
    assert name.y0 >= 0 and name.y1 <= figure.bbox.y1


def test_mean_distances():
    distances = RNG.uniform(2, 10, size=(4, 3))
    axes = attention.mean_distances(distances, even=1.0).axes[0]
    dots = axes.collections[0].get_offsets()
    np.testing.assert_array_equal(dots[:, 0], np.repeat([1, 2, 3, 4], 3))
    np.testing.assert_allclose(dots[:, 1], distances.ravel())
    np.testing.assert_allclose(axes.lines[0].get_ydata(), distances.mean(axis=1))
    assert axes.get_ylabel() == "mean distance (pixels)"
    assert axes.get_ylim()[1] > 1.05 * distances.max()  # no dot is cut off
    axes = attention.mean_distances(distances, even=20.0).axes[0]
    assert axes.lines[1].get_ydata() == [20, 20] and axes.get_ylim()[1] > 20


def test_deletion_insertion():
    fraction = np.linspace(0, 1, 5)
    error = np.full(5, 0.1)
    deletion = {"rollout": (1 - fraction, error), "random": (0.5 - fraction / 2, error)}
    insertion = {"rollout": (fraction, error)}
    figure = attention.deletion_insertion(fraction, deletion, insertion)
    left, right = figure.axes
    low, high = left.collections[0].get_datalim(left.transData).intervaly
    np.testing.assert_allclose((low, high), (-10, 110))
    for line, (name, (values, _)) in zip(left.lines, deletion.items(), strict=True):
        assert line.get_label() == name
        np.testing.assert_allclose(line.get_xdata(), 100 * fraction)
        np.testing.assert_allclose(line.get_ydata(), 100 * values)
    np.testing.assert_allclose(right.lines[0].get_ydata(), 100 * fraction)


def test_the_axis_of_low_probabilities_has_room_for_their_bands():
    fraction = np.linspace(0, 1, 5)
    low = {"rollout": (np.full(5, 0.3), np.array([0.1, 0.1, 0.2, 0.1, np.nan]))}
    figure = attention.deletion_insertion(fraction, low, low)
    assert figure.axes[0].get_ylim() == pytest.approx((0, 55))


def bar_colors(figure):
    (bar,) = (axes for axes in figure.axes if axes.get_label() == "<colorbar>")
    return bar.collections[-1].cmap
