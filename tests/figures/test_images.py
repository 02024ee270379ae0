"""Grids of images show each image in its cell, with its caption."""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_hex

from vit_jax.figures import images, style

NAMES = ("cat", "dog", "ship")


def _random(*shape):
    return np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)


def _shown(axes):
    return np.asarray(axes.images[0].get_array())


@pytest.mark.parametrize("channels", [1, 3])
def test_predictions(tmp_path, channels):
    pictures = _random(3, 8, 8, channels)
    labels, predicted = np.array([0, 1, 2]), np.array([0, 2, 2])
    figure = images.predictions(
        pictures, labels, predicted, np.array([0.914, 0.5, 1.0]), NAMES
    )
    titles = [axes.get_title().strip() for axes in figure.axes]
    assert titles == [
        "✓ cat (91%)",
        "✗ true dog,\npredicted ship (50%)",
        "✓ ship (100%)",
    ]
    colors = [style.GREEN, style.RED, style.GREEN]
    lines = ["-", "--", "-"]
    for axes, picture, color, line in zip(
        figure.axes, pictures, colors, lines, strict=True
    ):
        np.testing.assert_array_equal(_shown(axes), np.squeeze(picture))
        assert axes.title.get_color() == color
        frame = axes.spines["left"]
        assert to_hex(frame.get_edgecolor()).upper() == color
        assert frame.get_linestyle() == line
    assert style.save(figure, tmp_path / "p.png").stat().st_size > 3_000


def test_captions_keep_apart():
    """The captions are the longest that CIFAR-10 can have."""
    pictures, labels = _random(6, 8, 8, 3), np.zeros(6, int)
    sure = np.ones((6, 1))
    names = ("automobile",)
    for figure, least_inches in (
        (images.predictions(pictures, labels, labels, sure[:, 0], names), 0.1),
        (images.disagreements(pictures, labels, sure, sure, names), 0.25),
    ):
        figure.draw_without_rendering()
        boxes = [axes.title.get_window_extent() for axes in figure.axes]
        gaps = [b.x0 - a.x1 for a, b in itertools.pairwise(boxes) if b.x0 > a.x0]
        assert len(gaps) >= 4 and min(gaps) > least_inches * figure.dpi


def test_names_of_classes_are_shortened_where_captions_would_meet():
    pictures, labels = _random(6, 8, 8, 3), np.zeros(6, int)
    sure = np.tile([0.0, 1.0], (6, 1))
    names = ("wandering albatross", "wandering spider")
    augmented = np.repeat(pictures[:, None], 3, axis=1)
    for figure in (
        images.predictions(pictures, labels, labels + 1, sure[:, 1], names),
        images.disagreements(pictures, labels, sure, sure, names),
        images.augmentations(
            pictures, augmented, names=names[:1] * 6, captions=[[""] * 3] * 6
        ),
    ):
        figure.draw_without_rendering()
        boxes = [a.title.get_window_extent() for a in figure.axes if a.get_title()]
        gaps = [
            b.x0 - a.x1 for a, b in itertools.pairwise(boxes) if abs(a.y0 - b.y0) < 1
        ]
        assert min([box.x0 for box in boxes]) > 0
        assert all(gap > 0 for gap in gaps)
        assert any("wander…atross" in a.get_title() for a in figure.axes)


def test_the_title_of_one_image_is_not_cut_off():
    title = "automobile predicted as automobile\n1 of 1 images, the surest first"
    one = np.zeros(1, int)
    figure = images.predictions(
        _random(1, 8, 8, 3), one, one, np.ones(1), NAMES, title=title
    )
    figure.draw_without_rendering()
    (shown,) = (text.get_window_extent() for text in figure.texts)
    assert shown.x0 > 0 and shown.x1 < figure.bbox.width


def test_class_samples():
    samples = _random(3, 4, 8, 8, 3)
    figure = images.class_samples(samples, NAMES)
    grid = np.array(figure.axes).reshape(3, 4)
    for place, axes in np.ndenumerate(grid):
        np.testing.assert_array_equal(_shown(axes), samples[place])
    assert tuple(axes.get_ylabel() for axes in grid[:, 0]) == NAMES
    assert figure.get_suptitle() == "Samples of each class"
    figure = images.class_samples(samples, NAMES, "the first 3 of 100 classes")
    assert figure.get_suptitle() == "Samples of the first 3 of 100 classes"


def _cuts(axes):
    """Where lines are drawn: across the axes at these y, and from above at these x."""
    lines = [line.get_xydata() for line in axes.lines]
    across = [line[0, 1] for line in lines if line[0, 1] == line[1, 1]]
    down = [line[0, 0] for line in lines if line[0, 0] == line[1, 0]]
    return across, down


def test_image_and_patches(tmp_path):
    image = _random(8, 12, 3)
    figure = images.image_and_patches(image, 4)
    whole, patches = figure.axes
    np.testing.assert_array_equal(_shown(whole), image)
    np.testing.assert_array_equal(_shown(patches), image)
    # Pixel n reaches from n - 0.5 to n + 0.5.
    assert _cuts(whole) == ([], []) and _cuts(patches) == ([3.5], [3.5, 7.5])
    assert figure.get_suptitle() == "2 × 3 = 6 patches of 4 × 4 pixels"
    assert style.save(figure, tmp_path / "p.png").stat().st_size > 3_000


@pytest.mark.parametrize("channels", [1, 3])
def test_class_patches_are_whole_and_have_borders(tmp_path, channels):
    pictures = _random(3, 9, 12, channels)
    figure = images.class_patches(pictures, NAMES, 4)
    assert [axes.get_title() for axes in figure.axes] == list(NAMES)
    for axes, picture in zip(figure.axes, pictures, strict=True):
        np.testing.assert_array_equal(_shown(axes), np.squeeze(picture[:8]))
        assert _cuts(axes) == ([3.5], [3.5, 7.5])
    assert "2 × 3 = 6 patches of 4 × 4 pixels" in figure.get_suptitle()
    assert style.save(figure, tmp_path / "p.png").stat().st_size > 3_000


def test_augmentations():
    originals, augmented = _random(2, 8, 8, 3), _random(2, 3, 8, 8, 3)
    captions = [["", "+ 30% dog", ""], [""] * 3]
    figure = images.augmentations(
        originals, augmented, names=["cat", "ship"], captions=captions
    )
    grid = np.array(figure.axes).reshape(2, 4)
    for row in range(2):
        np.testing.assert_array_equal(_shown(grid[row, 0]), originals[row])
        for column in range(3):
            np.testing.assert_array_equal(
                _shown(grid[row, column + 1]), augmented[row, column]
            )
    assert [axes.get_title() for axes in grid[0]] == ["cat", "", "+ 30% dog", ""]
    assert grid[1, 0].get_title() == "ship"


def test_pairs():
    left, right = _random(5, 8, 8, 3), _random(5, 8, 8, 3)[::-1]
    figure = images.pairs(left, right, [f"pair {i}" for i in range(5)])
    assert [axes.get_title() for axes in figure.axes] == [f"pair {i}" for i in range(5)]
    np.testing.assert_array_equal(_shown(figure.axes[3])[:, :8], left[3])
    np.testing.assert_array_equal(_shown(figure.axes[3])[:, 8:], right[3])


@pytest.mark.parametrize("channels", [1, 3])
def test_channel_histograms(tmp_path, channels):
    counts = np.zeros((channels, 256), np.int64)
    counts[:, 10], counts[:, 200] = 1, 3
    figure = images.channel_histograms(
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
