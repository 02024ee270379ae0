"""Where a transformer looks.

Heat maps are shares on the grid of patches, [rows, columns]; they are drawn over the
whole image, smoothed between the centres of patches, each from 0 to its own maximum.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vit_jax.figures import style


def draw_overlay(
    axes: Axes,
    image: UInt8[np.ndarray, "h w c"],
    heat_map: Float[np.ndarray, "rows columns"],
    title: str = "",
) -> None:
    """Draws the image with the heat map over it, half transparent."""
    style.show_image(axes, image, title)
    height, width = image.shape[:2]
    axes.imshow(
        heat_map,
        cmap=style.HEAT,
        alpha=0.55,
        vmin=0,
        vmax=max(heat_map.max(), 1e-12),
        interpolation="bilinear",
        extent=(-0.5, width - 0.5, height - 0.5, -0.5),
    )


def overlays(
    images: UInt8[np.ndarray, "n h w c"],
    heat_maps: Mapping[str, Float[np.ndarray, "n rows columns"]],
    captions: Sequence[str],
    *,
    title: str = "Attention",
) -> Figure:
    """A row for each image: itself, then each kind of heat map, by name.

    Kinds are, for example, the last block's class-token attention and rollout.
    """
    columns = 1 + len(heat_maps)
    figure = style.new_figure(0.3 + 1.8 * columns, 0.5 + 1.95 * len(images), title)
    grid = figure.subplots(len(images), columns, squeeze=False)
    for row, (image, caption) in enumerate(zip(images, captions, strict=True)):
        style.show_image(grid[row, 0], image, caption)
        for axes, (name, maps) in zip(grid[row, 1:], heat_maps.items(), strict=True):
            draw_overlay(axes, image, maps[row], name)
    return figure


def by_block_and_head(
    image: UInt8[np.ndarray, "h w c"],
    heat_maps: Float[np.ndarray, "blocks heads rows columns"],
    *,
    title: str = "Attention by block and head",
) -> Figure:
    """A grid over the image: a row for each block, a column for each head."""
    blocks, heads = heat_maps.shape[:2]
    figure = style.new_figure(0.8 + 0.95 * heads, 0.9 + 0.95 * blocks, title)
    grid = figure.subplots(blocks, heads, squeeze=False)
    for (block, head), axes in np.ndenumerate(grid):
        draw_overlay(axes, image, heat_maps[block, head])
        if block == 0:
            axes.set_title(f"head {head + 1}", fontsize=9, pad=3)
        if head == 0:
            axes.set_ylabel(f"block {block + 1}", fontsize=9)
    return figure


def mean_distances(
    distances: Float[np.ndarray, "blocks heads"],
    *,
    title: str = "Mean attention distance",
) -> Figure:
    """One dot for each head, in pixels, and the mean of each block as a line."""
    blocks, heads = distances.shape
    figure = style.new_figure(6.0, 3.8, title)
    axes = figure.add_subplot()
    style.label_axes(axes, x="block", y="mean distance (pixels)")
    places = np.arange(1, blocks + 1)
    axes.scatter(
        np.repeat(places, heads), distances.ravel(), s=28, color=style.SKY, label="head"
    )
    axes.plot(places, distances.mean(axis=1), color=style.BLUE, label="mean of block")
    axes.set_xticks(places)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=9, frameon=False)
    return figure


def deletion_insertion(
    share: Float[np.ndarray, "points"],
    deletion: Mapping[str, Float[np.ndarray, "points"]],
    insertion: Mapping[str, Float[np.ndarray, "points"]],
    *,
    title: str = "Does the model use what the map marks?",
) -> Figure:
    """The class's probability as the most marked patches are removed, or added first.

    Args:
      share: of patches removed or added, 0 to 1.
      deletion: probability, 0 to 1, for each kind of map; a good one falls fast.
      insertion: the same, from an empty image; a good one rises fast.
      title: of the figure.
    """
    figure = style.new_figure(9.0, 3.8, title)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, name, curves in zip(
        panels, ("deleted", "inserted"), (deletion, insertion), strict=True
    ):
        style.label_axes(axes, f"Patches {name}", f"patches {name} (%)")
        for index, (label, values) in enumerate(curves.items()):
            axes.plot(
                100 * share,
                100 * values,
                style.LINE_STYLES[index % 4],
                color=style.PALETTE[index],
                label=label,
            )
        axes.set_xlim(0, 100)
        axes.set_ylim(0, 101)
        axes.legend(fontsize=9, frameon=False)
    panels[0].set_ylabel("probability of the class (%)", fontsize=10)
    return figure
