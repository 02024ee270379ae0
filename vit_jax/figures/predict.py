"""What a model says of one image."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure

from vit_jax.figures import attention, style


def prediction(
    image: UInt8[np.ndarray, "h w c"],
    top_names: Sequence[str],
    top_probabilities: Sequence[float] | Float[np.ndarray, "top"],
    *,
    heat_map: Float[np.ndarray, "rows columns"] | None = None,
    heat_map_name: str = "attention",
    sentence: str = "",
    title: str = "Prediction",
) -> Figure:
    """The image, its attention overlay if given, and bars of the likeliest classes.

    Args:
      image: as the model saw it, before normalisation.
      top_names: the likeliest classes, likeliest first.
      top_probabilities: of these classes, 0 to 1.
      heat_map: on the grid of patches or features, 0 or more.
      heat_map_name: such as "attention" or "Grad-CAM".
      sentence: shown under the title, such as how sure the model is.
      title: such as the file's name.
    """
    panels = 2 if heat_map is None else 3
    figure = style.new_figure(2.6 * panels + 1.2, 3.1, style.shorten(title, 50))
    grid = figure.subplots(
        1, panels, squeeze=False, width_ratios=[1] * (panels - 1) + [1.4]
    )[0]
    style.show_image(grid[0], image, "image")
    if heat_map is not None:
        attention.draw_overlay(grid[1], image, heat_map, heat_map_name)
    axes = grid[-1]
    style.label_axes(axes, sentence, "probability (%)")
    bars = axes.barh(
        top_names, [100 * float(p) for p in top_probabilities], color=style.BLUE
    )
    for bar in list(bars)[1:]:
        bar.set_color(style.SKY)
    axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 118)
    axes.set_xticks(range(0, 101, 20))
    axes.grid(False, axis="y")
    return figure
