"""Scikit-learn's digits as a source."""

import numpy as np
from sklearn.datasets import load_digits

from vit_jax import data
from vit_jax.config import make_config


def load(**changes):
    settings = {"source": "digits", "validation": 200} | changes
    return data.load(make_config({"data": settings}).data)


def test_digits():
    splits = load()
    sizes = {name: len(split) for name, split in splits.items()}
    assert sizes == {"train": 1238, "val": 200, "test": 359}
    digits = load_digits()
    images = np.concatenate([split.images for split in splits.values()])
    labels = np.concatenate([split.labels for split in splits.values()])
    assert images.shape == (1797, 8, 8, 1) and images.dtype == np.uint8
    assert splits["test"].class_names == tuple("0123456789")
    # Every image of the original is in one split, with its label.
    levels = np.rint(images[..., 0] / 255 * 16)
    original = {
        (i.tobytes(), y) for i, y in zip(digits.images, digits.target, strict=False)
    }
    assert {(i.tobytes(), y) for i, y in zip(levels, labels, strict=False)} == original
    assert (images.min(), images.max()) == (0, 255)


def test_the_test_split_of_digits_is_fixed():
    first, second = load(), load(split_seed=7)
    np.testing.assert_array_equal(first["test"].images, second["test"].images)
    assert not np.array_equal(first["val"].images, second["val"].images)
