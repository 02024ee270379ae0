"""The prediction for one image."""

import textwrap
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure

from vit_jax.figures import attention, style

# Size of a picture's panel in inches: the square root of its area, and the range of its
# width.
_SIDE = 3.0
_MIN_WIDTH, _MAX_WIDTH = 2.0, 4.5
# Dots per inch at most, for photos that are extremely high and narrow.
_MAX_DPI = 400


def prediction(
    photo: UInt8[np.ndarray, "h w c"],
    top_names: Sequence[str],
    top_probabilities: Sequence[float] | Float[np.ndarray, " top"],
    *,
    heat_map: Float[np.ndarray, "rows columns"] | None = None,
    heat_map_name: str = "attention",
    sentence: str = "",
    title: str = "Prediction",
) -> Figure:
    """The photo, the heat map, both together, and bars of the most probable classes.

    The figure has as many dots per inch as show each pixel of the photo, up to 400.

    Args:
      photo: the part of it that the model sees, in any size.
      top_names: the most probable classes, the most probable first.
      top_probabilities: of these classes, 0 to 1.
      heat_map: on the grid of patches or features, 0 or more; None: only the photo and
        the bars are drawn.
      heat_map_name: such as "attention" or "Grad-CAM".
      sentence: shown over the bars, such as how sure the model is.
      title: such as the file's name.
    """
    height, width = photo.shape[:2]
    panel_width = np.clip(_SIDE * (width / height) ** 0.5, _MIN_WIDTH, _MAX_WIDTH)
    panel_height = min(panel_width * height / width, 2 * _SIDE)
    pictures = 1 if heat_map is None else 3
    bar_width = 0.0 if heat_map is None else 0.9
    figure = style.new_figure(
        pictures * (panel_width + 0.3) + bar_width + 3.4,  # 0.3: between panels
        max(2.7, panel_height) + 0.6,
        style.ellipsize(title, 50),
    )
    # 1.15: labels and the colour bar take some of each panel's width.
    figure.set_dpi(np.clip(1.15 * width / panel_width, figure.dpi, _MAX_DPI))
    grid = figure.subplots(
        1, pictures + 1, squeeze=False, width_ratios=[panel_width] * pictures + [2.6]
    )[0]
    style.show_image(grid[0], photo, "photo")
    if heat_map is not None:
        attention.draw_map(grid[1], heat_map, height, width, heat_map_name)
        attention.draw_overlay(grid[2], photo, heat_map, "over the photo")
        attention.add_color_bar(figure, grid[np.newaxis, :3])
    axes = grid[-1]
    style.label_axes(axes, x="probability (%)")
    # On the right and in lines, so that a long name of a class stays in the figure.
    axes.set_title(textwrap.fill(sentence, 40), fontsize=11, loc="right")
    names = style.short_names(top_names, 24)
    bars = axes.barh(names, 100 * np.array(top_probabilities), color=style.BLUE)
    for bar in bars[1:]:
        bar.set_color(style.SKY)
    axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 118)
    axes.set_xticks(range(0, 101, 20))
    axes.grid(False, axis="y")
    return figure
