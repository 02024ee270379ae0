"""What the layers of a convolutional network respond to."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure

from vit_jax.figures import style


def feature_maps(
    image: UInt8[np.ndarray, "h w c"],
    maps: Mapping[str, Float[np.ndarray, "_ _ _"]],
    *,
    num_channels: int = 8,
) -> Figure:
    """The image, and a row of the first channels of each layer, by name.

    Args:
      image: the input.
      maps: [height, width, channels] of each layer; each has its own colour range.
      num_channels: how many to show of each layer.
    """
    figure = style.new_figure(
        2.0 + 0.9 * num_channels, 0.5 + 1.1 * len(maps), "Feature maps"
    )
    grid = figure.add_gridspec(
        len(maps), num_channels + 1, width_ratios=[1.6] + [1] * num_channels
    )
    style.show_image(figure.add_subplot(grid[:, 0]), image, "image")
    for row, (name, values) in enumerate(maps.items()):
        for channel in range(min(num_channels, values.shape[2])):
            axes = figure.add_subplot(grid[row, channel + 1])
            axes.imshow(values[..., channel], cmap="viridis")
            style.hide_ticks(axes)
            if channel == 0:
                size = " × ".join(map(str, values.shape))
                axes.set_title(f"{name} ({size})", fontsize=9, loc="left", pad=3)
    return figure
