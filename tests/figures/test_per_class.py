"""Bars of each class: their heights, colours, patterns and legends."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer

from vit_jax.figures import per_class, style

NAMES = ("cat", "dog", "ship")


def test_accuracy_bands():
    names = ("a", "b", "c", "d", "e")
    accuracy = np.array([0.9, 0.8999, 0.8, 0.7999, np.nan])
    intervals = np.stack([accuracy, accuracy], axis=1)
    axes = per_class.accuracy_bars(accuracy, names, intervals=intervals).axes[0]
    bars = axes.patches
    assert [round(bar.get_height(), 2) for bar in bars] == [90, 89.99, 80, 79.99]
    green, orange, red = style.GREEN, style.ORANGE, style.RED
    assert [to_hex(bar.get_facecolor()).upper() for bar in bars] == [
        green,
        orange,
        orange,
        red,
    ]
    # Patterns tell the bands apart in print without colour.
    assert [bar.get_hatch() for bar in bars] == ["", "//", "//", "xx"]
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["90.0", "90.0", "80.0", "80.0", "none"]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["90% or more", "80% to 90%", "below 80%"]


def test_grouped_bars():
    test, subset = np.array([0.5, 0.6, 0.7]), np.array([0.4, np.nan, 0.8])
    axes = per_class.grouped_bars(
        {"test": test, "subset_test": subset},
        NAMES,
        by=("accuracy", test),
        title="Two splits",
    ).axes[0]
    first, second = axes.containers[:2]
    np.testing.assert_allclose([bar.get_height() for bar in first], 100 * test)
    np.testing.assert_allclose([bar.get_height() for bar in second], 100 * subset)
    # The bars stand side by side over the tick of their class.
    for index, (left, right) in enumerate(zip(first, second, strict=True)):
        assert left.get_x() + left.get_width() == pytest.approx(index)
        assert right.get_x() == pytest.approx(index)
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["test", "subset_test"]
    # Patterns tell the bars apart in print without colour.
    assert len({bars[0].get_hatch() for bars in axes.containers}) == 2


def test_grouped_bars_have_error_bars():
    scores = np.array([0.9, 0.5, np.nan])
    ends = np.array([[0.8, 0.95], [0.4, 0.6], [np.nan, np.nan]])
    axes = per_class.grouped_bars(
        dict.fromkeys(("precision", "recall", "F1"), scores),
        NAMES,
        by=("F1", scores),
        title="Three scores",
        intervals=[ends, ends - 0.1, ends + 0.05],
    ).axes[0]
    errors = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    drawn = [error.lines[2][0].get_segments() for error in errors]
    for segments, low in zip(drawn, (80, 70, 85), strict=True):
        assert segments[0][0, 1] == pytest.approx(low)


def test_bars_of_numbers_are_as_high_as_the_numbers():
    counts = {"train": np.array([5, 6, 7]), "test": np.array([1, 2, 1000])}
    names = ("cat", "dog", "ship")
    by = ("count", counts["test"])
    figure = per_class.grouped_bars(counts, names, by=by, title="", unit="images")
    axes = figure.axes[0]
    for container, numbers in zip(axes.containers, counts.values(), strict=True):
        assert [bar.get_height() for bar in container] == list(numbers)
    assert axes.get_ylim()[1] > 1000 and axes.get_ylabel() == "images"


def bars_of_40_classes(draw):
    """Names of the ticks, and (height, ends of the interval) of each bar."""
    scores = np.random.default_rng(0).permutation(40) / 40
    scores[scores == 0] = np.nan
    ends = np.stack([scores - 0.01, scores + 0.02], axis=1)
    figure = draw(scores, [f"c{x:.3f}" for x in scores], ends)
    assert "20 of 40 classes: the lowest and the highest" in figure.get_suptitle()
    axes = figure.axes[0]
    errors = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    return (
        [tick.get_text() for tick in axes.get_xticklabels()],
        [bar.get_height() for bar in axes.patches],
        [s[:, 1] for error in errors for s in error.lines[2][0].get_segments()],
    )


# The class with the score 0 is the one that has none.
LOWEST_AND_HIGHEST = np.array([*range(1, 11), *range(30, 40)]) / 40


def test_of_many_accuracies_the_lowest_and_the_highest_are_drawn():
    names, heights, intervals = bars_of_40_classes(
        lambda scores, names, ends: per_class.accuracy_bars(
            scores, names, intervals=ends
        )
    )
    assert names == [f"c{x:.3f}" for x in LOWEST_AND_HIGHEST]
    np.testing.assert_allclose(heights, 100 * LOWEST_AND_HIGHEST)
    low, high = np.array(intervals).T / 100
    np.testing.assert_allclose(low, LOWEST_AND_HIGHEST - 0.01)
    np.testing.assert_allclose(high, LOWEST_AND_HIGHEST + 0.02)


def test_of_many_groups_of_bars_the_lowest_and_the_highest_are_drawn():
    def draw(scores, names, ends):
        groups = {"recall": np.linspace(0, 0.9, 40), "F1": scores}
        return per_class.grouped_bars(
            groups, names, title="", by=("F1", scores), intervals=[ends - 0.2, ends]
        )

    names, heights, intervals = bars_of_40_classes(draw)
    assert names == [f"c{x:.3f}" for x in LOWEST_AND_HIGHEST]
    half = slice(20, 40)
    np.testing.assert_allclose(heights[half], 100 * LOWEST_AND_HIGHEST)
    low = np.array(intervals)[half, 0] / 100
    np.testing.assert_allclose(low, LOWEST_AND_HIGHEST - 0.01)
