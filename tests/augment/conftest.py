"""Images that are augmented by us and by Pillow."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits

SLOW = pytest.mark.slow


def made_images():
    """Gradients, one value only, two values, noise, and noise of few values."""
    rng = np.random.default_rng(0)
    y, x = np.indices((32, 32))
    ramp = np.stack([8 * y, 8 * x, 4 * (x + y)], -1)
    flat = np.full((32, 32, 3), (7, 255, 0))
    two = np.where((x < 5)[..., None], 100, flat)
    noise = rng.integers(256, size=(4, 32, 32, 3))
    few = rng.choice([30, 31, 90, 200], size=(4, 32, 32, 3))
    return np.concatenate([[ramp, flat, two], noise, few]).astype(np.uint8)


def gray_digits():
    digits = load_digits().images[:20] * 15.9
    return digits.astype(np.uint8)[..., None]


@pytest.fixture(
    scope="module",
    params=["made", *(pytest.param(n, marks=SLOW) for n in ("digits", "cifar10"))],
)
def images(request):
    """uint8 [n, h, w, c]."""
    if request.param == "made":
        return made_images()
    if request.param == "digits":
        return gray_digits()
    path = request.getfixturevalue("cifar10_dir") / "data_batch_1"
    rows = pickle.loads(path.read_bytes(), encoding="bytes")[b"data"][:60]
    return rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
