"""Statistics of the pixel values of a split."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int, UInt8


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


def pixel_statistics(images: UInt8[np.ndarray, "n h w c"]) -> PixelStatistics:
    """Histogram, mean and standard deviation of each channel, exact in float64."""
    counts = np.stack(
        [
            np.bincount(images[..., channel].ravel(), minlength=256)
            for channel in range(images.shape[3])
        ]
    )
    values = np.arange(256.0)
    num_pixels = counts.sum(axis=1)
    mean = counts @ values / num_pixels
    variance = counts @ np.square(values) / num_pixels - np.square(mean)
    return PixelStatistics(counts, mean, np.sqrt(np.maximum(variance, 0)))
