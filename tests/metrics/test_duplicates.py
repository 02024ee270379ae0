"""Duplicates across splits, made here or known to be in CIFAR-10."""

import pickle

import numpy as np
import pytest

from vit_jax.data import Rows
from vit_jax.metrics import duplicates


def near_duplicates(*splits):
    return duplicates.near_duplicates(*map(duplicates.thumbnails, splits))


def _images(n, seed, side=32, channels=3):
    """Smooth random images, as photographs are."""
    rng = np.random.default_rng(seed)
    size = side // 8
    shape = (n, side // size, side // size, channels)
    coarse = rng.integers(256, size=shape, dtype=np.uint8)
    return coarse.repeat(size, axis=1).repeat(size, axis=2)


def test_exact_duplicates_are_all_found():
    images, others = _images(5, 0), _images(8, 1)
    images[4] = others[6] = others[2] = images[3]
    others[0] = images[1]
    assert duplicates.exact_duplicates(images, others).tolist() == [1, 3, 4]
    others[[0, 2], 0, 0, 0] ^= 1
    assert duplicates.exact_duplicates(images, others).tolist() == [3, 4]
    assert duplicates.exact_duplicates(images, _images(4, 2)).shape == (0,)
    # Of a file, images are read as they are needed.
    rows = Rows(images, np.array([4, 3, 0]))
    assert duplicates.exact_duplicates(rows, others).tolist() == [0, 1]
    assert near_duplicates(rows, rows)[0].tolist() == [[0, 0], [1, 0], [2, 2]]


@pytest.mark.parametrize(("side", "channels"), [(32, 3), (8, 1), (36, 3)])
def test_near_duplicates(side, channels):
    images = _images(6, 0, side, channels)
    others = _images(20, 1, side, channels)
    noise = np.random.default_rng(2).normal(0, 4, images[4].shape)
    darker = 0.6 * images[4].astype(np.float64) + 30 + noise
    others[11] = darker.clip(0, 255).astype(np.uint8)
    others[3] = images[1]
    pairs, correlations = near_duplicates(images, others)
    assert pairs.tolist() == [[1, 3], [4, 11]]
    assert correlations[0] == pytest.approx(1, abs=1e-5)
    assert 0.97 <= correlations[1] < 1


def test_even_images_resemble_nothing():
    even = np.full((3, 32, 32, 3), 200, np.uint8)
    assert len(near_duplicates(even, even)[0]) == 0


def test_correlation_is_that_of_the_thumbnails():
    images = _images(1, 0)
    noise = np.random.default_rng(1).normal(0, 20, images.shape)
    others = (images + noise).clip(0, 255).astype(np.uint8)
    expected = np.corrcoef(
        *(x.reshape(16, 2, 16, 2, 3).mean((1, 3)).ravel() for x in (images, others))
    )[0, 1]
    _, correlations = near_duplicates(images, others)
    assert correlations[0] == pytest.approx(expected, abs=1e-5)


def test_known_near_duplicates_of_cifar10(cifar10_dir):
    def read(name):
        with open(cifar10_dir / name, "rb") as file:
            batch = pickle.load(file, encoding="bytes")
        return batch[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)

    # Test image 673 and training image 34116 are one photograph of a cat.
    test, train = read("test_batch")[600:700], read("data_batch_4")[4000:4200]
    pairs, correlations = near_duplicates(test, train)
    assert pairs.tolist() == [[673 - 600, 34116 - 34000]]
    assert correlations[0] > 0.99
