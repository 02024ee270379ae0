"""Pixel statistics against NumPy, and which of them normalise a model's input."""

import numpy as np
import pytest

from vit_jax import data
from vit_jax.config import make_config
from vit_jax.data import Dataset, Rows
from vit_jax.errors import UserError


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_are_counted_as_numpy_does(channels):
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(7, 5, 6, channels), dtype=np.uint8)
    images[0] = 255
    result = data.pixel_statistics(images)
    np.testing.assert_allclose(result.mean, images.mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(result.std, images.std(axis=(0, 1, 2)))
    assert result.counts.shape == (channels, 256)
    assert result.counts[0, 255] == (images[..., 0] == 255).sum()
    assert (result.counts.sum(axis=1) == 7 * 5 * 6).all()


def test_images_in_a_file_are_read_in_blocks(tmp_path):
    images = np.random.default_rng(1).integers(
        256, size=(2500, 3, 2, 1), dtype=np.uint8
    )
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    read = []

    class Recorded(Rows):
        def __getitem__(self, key):
            rows = super().__getitem__(key)
            read.append(len(rows))
            return rows

    found = data.pixel_statistics(Recorded(mapped, np.arange(2500)))
    assert sum(read) == 2500 and max(read) < 2500
    np.testing.assert_allclose(found.std, images.std(axis=(0, 1, 2)))


@pytest.fixture
def settings():
    """The defaults with the built-in digits."""
    return make_config({"data": {"source": "digits", "validation": 200}}).data


@pytest.fixture
def colors():
    images = np.random.RandomState(0).randint(0, 256, (2500, 4, 4, 3), np.uint8)
    return Dataset(images, np.zeros(2500, np.int32), ("one",))


def test_statistics_are_computed_from_the_pixels(settings, colors):
    mean, std = data.normalization(settings, colors)
    pixels = colors.images / 255
    np.testing.assert_allclose(mean, pixels.mean((0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(std, pixels.std((0, 1, 2)), rtol=1e-12)


@pytest.mark.parametrize("source", ["tfds", "cifar_files"])
def test_statistics_of_named_datasets(settings, colors, source):
    settings.source = source
    assert data.normalization(settings, colors) == data.STATISTICS["cifar10"]


def test_statistics_of_the_settings_win(settings, colors):
    settings.source = "tfds"
    settings.std = (0.2023, 0.1994, 0.2010)
    mean, std = data.normalization(settings, colors)
    assert mean == data.STATISTICS["cifar10"][0]
    assert std == (0.2023, 0.1994, 0.2010)
    settings.mean = (0.5, 0.5, 0.5)
    assert data.normalization(settings, colors)[0] == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("key", ["mean", "std"])
def test_statistics_for_another_number_of_channels(settings, colors, key):
    settings[key] = (0.5,)
    with pytest.raises(UserError, match=rf"{key} is 1, but .* is 3; give"):
        data.normalization(settings, colors)


def test_a_constant_channel(settings, colors):
    colors.images[..., 1] = 77
    with pytest.raises(UserError, match=r"Channel 1 has one value"):
        data.normalization(settings, colors)
    settings.std = (0.2, 0.2, 0.2)
    assert data.normalization(settings, colors)[1] == (0.2, 0.2, 0.2)
