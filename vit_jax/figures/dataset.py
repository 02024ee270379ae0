"""Statistics of a dataset."""

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from vit_jax.figures import style


def channel_histograms(
    counts: Int[np.ndarray, "c 256"],
    mean: Float[np.ndarray, " c"],
    std: Float[np.ndarray, " c"],
    *,
    title: str = "Pixel values",
) -> Figure:
    """How often each value 0 to 255 occurs in each channel, with its mean.

    Args:
      counts: pixels with each value.
      mean: of each channel, in 0..255 units.
      std: standard deviation of each channel, in 0..255 units.
    """
    channels = ("red", "green", "blue") if len(counts) == 3 else ("grey",) * len(counts)
    colors = {"red": style.RED, "green": style.GREEN, "blue": style.BLUE}
    figure = style.new_figure(0.8 + 3.2 * len(counts), 3.4, title)
    grid = figure.subplots(1, len(counts), sharey=True, squeeze=False)[0]
    percent = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for axes, channel, values, center, spread in zip(
        grid, channels, percent, mean, std, strict=True
    ):
        style.label_axes(
            axes, f"{channel}: mean {center:.1f}, std {spread:.1f}", "value (0 to 255)"
        )
        axes.fill_between(
            np.arange(256), values, step="mid", color=colors.get(channel, style.GREY)
        )
        axes.axvline(center, color=style.BLACK, linestyle="--", linewidth=1)
        axes.set_xlim(0, 255)
    grid[0].set_ylim(0, 1.05 * max(percent.max(), 1e-9))
    grid[0].set_ylabel("pixels (%)", fontsize=10)
    return figure
