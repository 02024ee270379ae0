"""Statistics of the pixels of a split, and those that normalise a model's input."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from vit_jax.data.dataset import Dataset
from vit_jax.data.rows import Rows
from vit_jax.data.sources import dataset_name
from vit_jax.errors import UserError

# For each name of a dataset, mean and standard deviation of each channel over the
# official training split; white is 1.
STATISTICS = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "cifar100_coarse": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}


@dataclasses.dataclass(frozen=True)
class PixelStatistics:
    """Statistics of each channel, in 0..255 units.

    Attributes:
      counts: number of pixels with each value.
      mean: of all pixels.
      std: population standard deviation of all pixels.
    """

    counts: Int[np.ndarray, "c 256"]
    mean: Float[np.ndarray, " c"]
    std: Float[np.ndarray, " c"]


def pixel_statistics(images: np.ndarray | Rows) -> PixelStatistics:
    """Histogram, mean and standard deviation of each channel, exact in float64.

    Counts of the 256 values need no copy in floating point, and only one pass over
    images [n, height, width, channels] that may be in a file.
    """
    values, channels = np.arange(256), images.shape[-1]
    counts = np.zeros((channels, 256), np.int64)
    for start in range(0, len(images), 1024):
        block = images[start : start + 1024]
        for channel in range(channels):
            counts[channel] += np.bincount(block[..., channel].ravel(), minlength=256)
    num_pixels = counts.sum(axis=1)
    mean = counts @ values / num_pixels
    squares = np.square(values - mean[:, None])
    return PixelStatistics(
        counts, mean, np.sqrt((squares * counts).sum(axis=1) / num_pixels)
    )


def normalization(
    config_data: Any, train: Dataset
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel for normalisation; white is 1.

    Each is config_data.mean or .std if given, else from `STATISTICS` for a named
    dataset, else computed from all pixels of `train`.

    Raises:
      UserError: the settings do not have one number for each channel, or a channel is
        constant.
    """
    channels = train.images.shape[-1]
    mean, std = config_data.mean, config_data.std
    for key, given in (("mean", mean), ("std", std)):
        if given is not None and len(given) != channels:
            raise UserError(
                f"The length of config.data.{key} is {len(given)}, but the number of "
                f"channels of the images is {channels}; give one number for each."
            )
    if mean is None or std is None:
        named = config_data.source in ("tfds", "cifar_files")
        known = STATISTICS.get(dataset_name(config_data)) if named else None
        if known is None:
            found = pixel_statistics(train.images)
            known = (found.mean / 255).tolist(), (found.std / 255).tolist()
        mean, std = mean or known[0], std or known[1]
    if 0 in std:
        raise UserError(
            f"Channel {std.index(0)} has one value in every training pixel and cannot "
            "be normalised; check the images or set config.data.std."
        )
    return tuple(mean), tuple(std)
