"""Deletion and insertion curves, by hand."""

import numpy as np
import pytest

from vit_jax.interpret import faithfulness


def test_cells_are_marked_and_spread_over_the_pixels():
    maps = np.array([[[1.0, 3.0], [2.0, 0.0]]])
    ranks = faithfulness.ranks(maps)
    np.testing.assert_array_equal(ranks, [[[2, 0], [1, 3]]])
    marked = ranks < 2
    pixels = faithfulness.to_pixels(marked, 4, 4)
    np.testing.assert_array_equal(pixels[0], np.kron(marked[0], np.ones((2, 2), bool)))
    assert faithfulness.to_pixels(np.eye(3, dtype=bool)[None], 8, 7).shape == (1, 8, 7)


def test_finer_cells_become_one_for_each_pixel():
    fine = np.arange(24.0).reshape(1, 4, 6)
    mean = fine.reshape(1, 2, 2, 3, 2).mean(axis=(2, 4))
    np.testing.assert_allclose(faithfulness.average_to_pixels(fine, 2, 3), mean)
    np.testing.assert_array_equal(faithfulness.average_to_pixels(fine, 4, 8), fine)
    uneven = faithfulness.average_to_pixels(fine[:, :, :5], 4, 3)
    np.testing.assert_allclose(uneven[0, 0], [0.5, 2.5, 4])
    # Half of the cells cover half of the pixels, though they are finer than these.
    images, rows = np.full((1, 2, 2, 1), 255, np.uint8), np.zeros((1, 4, 4))
    rows[:, 2:] = 1

    def predict(images):
        return images.mean(axis=(1, 2)) / 255

    arguments = (np.array([0]), np.array([0], np.uint8))
    curves, _ = faithfulness.compare(predict, images, {"rows": rows}, *arguments)
    assert list(curves) == ["rows", "random, 2 × 2"]
    np.testing.assert_allclose(curves["rows"].deletion[0], np.linspace(1, 0, 17))


def test_curves_tell_a_good_map_from_a_bad_one():
    """A model that looks at the upper left quarter only."""

    def predict(images):
        fraction = images[:, :4, :4].mean(axis=(1, 2, 3)) / 255
        return np.stack([fraction, 1 - fraction], axis=1)

    images = np.full((2, 8, 8, 1), 255, np.uint8)
    good = np.array([[[1.0, 0], [0, 0]]] * 2)
    arguments = (np.array([0, 0]), np.array([0], np.uint8))
    found = faithfulness.measure(predict, images, good, *arguments)
    # Of 17 points every fourth changes a whole cell.
    np.testing.assert_allclose(found.deletion[:, ::4], [[1, 0, 0, 0, 0]] * 2)
    np.testing.assert_allclose(found.insertion[:, ::4], [[0, 1, 1, 1, 1]] * 2)
    np.testing.assert_allclose(found.areas("deletion"), 0.125)
    np.testing.assert_allclose(found.areas("insertion"), 0.875)
    bad = faithfulness.measure(predict, images, -good, *arguments)
    np.testing.assert_allclose(bad.areas("deletion"), 0.875)
    np.testing.assert_allclose(bad.areas("insertion"), 0.125)

    maps = {"good": good, "bad": -good, "coarse": np.ones((2, 1, 1))}
    curves, scores = faithfulness.compare(predict, images, maps, *arguments)
    # One cell covers everything, so that its random control has one cell as well.
    assert list(curves) == [*maps, "random, 2 × 2", "random, 1 × 1"] == list(scores)
    assert scores["coarse"]["deletion_minus_random"] == 0
    random = scores["random, 2 × 2"]["deletion"]
    assert scores["good"]["deletion"] < random < scores["bad"]["deletion"]
    assert scores["good"]["deletion_minus_random"] == pytest.approx(
        scores["good"]["deletion"] - random
    )


def test_standard_errors_by_hand():
    areas = np.repeat([[0.1], [0.2], [0.6]], len(faithfulness.FRACTION), axis=1)
    found = faithfulness.Curves(areas, 2 * areas)
    control = faithfulness.Curves(areas + 0.25, 2 * areas)
    scores = faithfulness.describe(found, control)
    assert scores["deletion"] == pytest.approx(0.3)
    # The squared deviations are 0.04, 0.01 and 0.09: std / sqrt(3) with n - 1 = 2.
    assert scores["deletion_error"] == pytest.approx((0.14 / 2 / 3) ** 0.5)
    assert scores["insertion_error"] == pytest.approx(2 * scores["deletion_error"])
    assert scores["deletion_minus_random"] == pytest.approx(-0.25)
    # Image by image the difference is always the same.
    assert scores["deletion_minus_random_error"] == pytest.approx(0)
    mean, error = faithfulness.mean_and_error(areas[:1])
    np.testing.assert_allclose(mean, areas[0])
    assert np.isnan(error).all()


@pytest.mark.parametrize("object_rows", [slice(0, 4), slice(4, 8)])
def test_a_map_of_equal_cells_is_as_good_as_random_ones(object_rows):
    """Wherever the object lies, of which the model sees the visible part."""

    def predict(images):
        fraction = images[:, object_rows].mean(axis=(1, 2, 3)) / 255
        return np.stack([fraction, 1 - fraction], axis=1)

    images = np.full((64, 8, 8, 1), 255, np.uint8)
    equal = {"equal": np.zeros((64, 4, 4))}
    arguments = (np.zeros(64, int), np.array([0], np.uint8))
    _, scores = faithfulness.compare(predict, images, equal, *arguments)
    for name in ("deletion", "insertion"):
        # In rows from the top it would be 0.25.
        assert abs(scores["equal"][f"{name}_minus_random"]) < 0.05
