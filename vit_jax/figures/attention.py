"""Where a model looks.

Heat maps are on the grid of patches, [rows, columns]. Each is drawn beside its image,
from 0 to its own maximum, in the colours of the colour bar. An overlay shows which
things in the image a map marks: it is interpolated between the centres of the patches
and covers the image, which is grey, the more the higher it is.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from vit_jax.figures import style

MeanAndError = tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]


def draw_map(
    axes: Axes,
    heat_map: Float[np.ndarray, "rows columns"],
    height: int,
    width: int,
    title: str = "",
    **look,
) -> None:
    """Draws the cells of a heat map, stretched to an image of that size in pixels.

    `look` are options of `imshow`.
    """
    axes.imshow(
        heat_map,
        cmap=style.HEAT,
        vmin=0,
        vmax=max(heat_map.max(), 1e-12),
        extent=(-0.5, width - 0.5, height - 0.5, -0.5),
        **{"interpolation": "nearest", **look},
    )
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize=9, pad=3)


def draw_overlay(
    axes: Axes,
    image: UInt8[np.ndarray, "h w c"],
    heat_map: Float[np.ndarray, "rows columns"],
    title: str = "",
) -> None:
    """Draws a heat map over an image in grey, which may have any size."""
    brightness = image.mean(axis=2, keepdims=True).round().astype(np.uint8)
    style.show_image(axes, brightness)
    opacity = 0.75 * heat_map / max(heat_map.max(), 1e-12)
    look = {"alpha": opacity, "interpolation": "bilinear"}
    draw_map(axes, heat_map, *image.shape[:2], title, **look)


def add_color_bar(figure: Figure, grid: np.ndarray) -> None:
    """The scale of all heat maps in `grid`, an array of axes, to the right of it."""
    colors = ScalarMappable(Normalize(0, 100), style.HEAT)
    bar = figure.colorbar(colors, ax=grid, shrink=min(1, 2.0 / len(grid)), pad=0.02)
    # In two lines, because a figure with one row of maps is not high.
    bar.set_label("% of the map's\nhighest value", fontsize=9)
    bar.ax.tick_params(labelsize=8)


def overlays(
    images: Collection[UInt8[np.ndarray, "h w c"]],
    heat_maps: Mapping[str, Float[np.ndarray, "n rows columns"]],
    captions: Sequence[str],
    *,
    title: str = "Attention",
) -> Figure:
    """A row for each image: itself, the first kind of heat map over it, then each kind.

    Images may differ in size. Kinds are, for example, the last block's class-token
    attention and rollout.
    """
    columns = 2 + len(heat_maps)
    first, maps_over = next(iter(heat_maps.items()))
    figure = style.new_figure(1.1 + 1.8 * columns, 0.5 + 1.95 * len(images), title)
    grid = figure.subplots(len(images), columns, squeeze=False)
    for row, (image, caption) in enumerate(zip(images, captions, strict=True)):
        style.show_image(grid[row, 0], image, caption)
        draw_overlay(grid[row, 1], image, maps_over[row], f"{first}\nover the image")
        for axes, (name, maps) in zip(grid[row, 2:], heat_maps.items(), strict=True):
            draw_map(axes, maps[row], *image.shape[:2], name)
    add_color_bar(figure, grid)
    return figure


def by_block_and_head(
    image: UInt8[np.ndarray, "h w c"],
    heat_maps: Float[np.ndarray, "blocks heads rows columns"],
    *,
    title: str = "Attention by block and head",
) -> Figure:
    """The image, and a grid of maps: a row for each block, a column for each head."""
    blocks, heads = heat_maps.shape[:2]
    width = max(4.6, 2.6 + 0.95 * heads)
    figure = style.new_figure(width, 1.3 + 0.95 * blocks, title)
    whole = figure.subplots(blocks, heads + 1, squeeze=False)
    for axes in whole[:, 0]:
        axes.set_axis_off()
    whole[0, 0].set_axis_on()
    style.show_image(whole[0, 0], image, "image")
    grid = whole[:, 1:]
    for (block, head), axes in np.ndenumerate(grid):
        draw_map(axes, heat_maps[block, head], *image.shape[:2])
        if block == 0:
            axes.set_title(f"head {head + 1}", fontsize=9, pad=3)
        if head == 0:
            axes.set_ylabel(f"block {block + 1}", fontsize=9)
    add_color_bar(figure, whole)
    return figure


def mean_distances(
    distances: Float[np.ndarray, "blocks heads"], *, even: float
) -> Figure:
    """One dot for each head, in pixels, and the mean of each block as a line.

    `even` is the distance of attention that is equal for all patches.
    """
    blocks, heads = distances.shape
    figure = style.new_figure(6.0, 3.8, "Mean attention distance")
    axes = figure.add_subplot()
    style.label_axes(axes, x="block", y="mean distance (pixels)")
    places = np.arange(1, blocks + 1)
    axes.scatter(
        np.repeat(places, heads), distances.ravel(), s=28, color=style.SKY, label="head"
    )
    axes.plot(places, distances.mean(axis=1), color=style.BLUE, label="mean of block")
    axes.axhline(even, ls="--", lw=1, color="0.4", label="even attention")
    axes.set_xticks(places)
    axes.set_ylim(0, 1.08 * max(distances.max(), even))
    axes.legend(fontsize=9, frameon=False)
    return figure


def deletion_insertion(
    fraction: Float[np.ndarray, " points"],
    deletion: Mapping[str, MeanAndError],
    insertion: Mapping[str, MeanAndError],
    *,
    title: str = "Does the model use what the map marks?",
) -> Figure:
    """The class's probability as the most marked patches are removed, or added first.

    Args:
      fraction: of patches removed or added, 0 to 1.
      deletion: (mean probability, 0 to 1, and its standard error, drawn as a band) for
        each kind of map; a good one falls fast.
      insertion: the same, from an empty image; a good one rises fast.
    """
    figure = style.new_figure(9.6, 3.8, title)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, name, curves in zip(
        panels, ("deleted", "inserted"), (deletion, insertion), strict=True
    ):
        style.label_axes(axes, f"Patches {name}", f"patches {name} (%)")
        for index, (label, (mean, error)) in enumerate(curves.items()):
            look = {"color": style.PALETTE[index]}
            dashes = style.LINE_STYLES[index % 4]
            x, low, high = (100 * y for y in (fraction, mean - error, mean + error))
            axes.plot(x, 100 * mean, dashes, label=label, **look)
            axes.fill_between(x, low, high, alpha=0.15, linewidth=0, **look)
        axes.set_xlim(0, 100)
    tops = [m + np.nan_to_num(e) for c in (deletion, insertion) for m, e in c.values()]
    panels[0].set_ylim(0, min(101, 110 * np.nanmax(tops)))
    style.legend_beside(panels[1], title="band: ± standard error", title_fontsize=9)
    panels[0].set_ylabel("probability of the class (%)", fontsize=10)
    return figure
