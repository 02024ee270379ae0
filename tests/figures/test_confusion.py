"""Confusion matrices and tables of the most frequent confusions."""

import numpy as np
import pytest

from vit_jax.figures import confusion, style

NAMES = ("cat", "dog", "ship")
MATRIX = np.array([[8, 2, 0], [5, 4, 1], [0, 0, 30]])


def test_confusion_matrix(tmp_path):
    figure = confusion.confusion_matrix(MATRIX, NAMES)
    axes = figure.axes[0]
    texts = {t.get_position()[::-1]: t.get_text() for t in axes.texts}
    # The count stands above its fraction of the row, and cells of 0 are empty.
    assert texts == {
        (0, 0): "8\n80.0%",
        (0, 1): "2\n20.0%",
        (1, 0): "5\n50.0%",
        (1, 1): "4\n40.0%",
        (1, 2): "1\n10.0%",
        (2, 2): "30\n100.0%",
    }
    # Colours show fractions of each row, on the same scale in all figures.
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
    figure = confusion.top_confusions(one_way, both_ways, NAMES, 1329)
    assert figure.get_suptitle() == "Most frequent of 1,329 mistakes"
    left, right = figure.axes
    assert [bar.get_width() for bar in left.patches] == [5, 2]
    assert [bar.get_width() for bar in right.patches] == [7]
    names = [tick.get_text() for tick in left.get_yticklabels()]
    assert names == ["dog → cat", "cat → dog"]
    texts = [text.get_text() for text in left.texts]
    assert texts == ["5 (62% of errors)", "2 (25% of errors)"]
    assert left.yaxis_inverted() and left.get_xlabel() == "images"
    assert left.get_title() == "true class → predicted class"


def test_small_parts_of_the_errors_have_decimals():
    pairs = [(1, 0, 25, 25 / 4143), (0, 1, 23, 23 / 4143)]
    names = [f"c{i}" for i in range(100)]
    axes = confusion.top_confusions(pairs, pairs, names, 4143).axes[0]
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["25 (0.60% of errors)", "23 (0.56% of errors)"]


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
