"""What a model has learned about examples, positions, patches and features."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int, UInt8
from matplotlib.figure import Figure

from vit_jax.figures import style


def class_scatter(
    coordinates: Mapping[str, Float[np.ndarray, "n 2"]],
    labels: Int[np.ndarray, " n"],
    class_names: Sequence[str],
    *,
    title: str = "t-SNE",
) -> Figure:
    """Two-dimensional coordinates of examples, one panel for each name, by class.

    Of more than `style.MAX_CLASSES` the first nine have a colour, which is as many as
    differ from each other and from the grey of the other classes.

    The axes have no ticks: t-SNE preserves neighbours, not distances or directions.
    """
    figure = style.new_figure(1.6 + 4.4 * len(coordinates), 4.8, title)
    panels = figure.subplots(1, len(coordinates), squeeze=False)[0]
    many = len(class_names) > style.MAX_CLASSES
    named = class_names[: style.PALETTE.index(style.GREY)] if many else class_names
    for axes, (name, points) in zip(panels, coordinates.items(), strict=True):
        for index, class_name in enumerate(style.legend_names(named)):
            look = style.series_look(index)
            del look["linestyle"]  # Of edges, which are not drawn.
            axes.scatter(
                *points[labels == index].T,
                s=14,
                linewidths=0,
                alpha=0.75,
                label=class_name,
                **look,
            )
        if many:
            label = f"{len(class_names) - len(named)} other classes"
            look = {"s": 6, "linewidths": 0, "color": "0.8", "zorder": 0}
            axes.scatter(*points[labels >= len(named)].T, label=label, **look)
        axes.set(xticks=[], yticks=[])
        axes.set_title(name, fontsize=11)
    style.legend_beside(panels[-1], markerscale=1.8)
    return figure


def position_similarity(
    similarity: Float[np.ndarray, "rows columns rows columns"],
) -> Figure:
    """A map for each patch: the cosine similarity of its position to all positions.

    `similarity[i, j]` is the map of the patch in row i, column j; -1 to 1. On a fine
    grid only some patches have their map.
    """
    # More than 14 maps in a row are too small to read, and take minutes to draw.
    step = -(-max(similarity.shape[:2]) // 14)
    shown = similarity[::step, ::step]
    rows, columns = shown.shape[:2]
    title = "Similarity of position embeddings"
    if step > 1:
        title += f"\n(one in {step} rows and columns of patches)"
    figure = style.new_figure(1.9 + 0.62 * columns, 1.0 + 0.62 * rows, title)
    grid = figure.subplots(rows, columns, squeeze=False)
    for place, axes in np.ndenumerate(grid):
        image = axes.imshow(shown[place], cmap=style.DIVERGING, vmin=-1, vmax=1)
        axes.set(xticks=[], yticks=[])
    bar = figure.colorbar(image, ax=grid, shrink=0.8)
    bar.set_label("cosine similarity", fontsize=10)
    figure.supxlabel("column of the patch", fontsize=10)
    figure.supylabel("row of the patch", fontsize=10)
    return figure


def patch_filters(kernel: Float[np.ndarray, "h w c filters"]) -> Figure:
    """Components of a patch or stem convolution's filters, each in its own range.

    Three input channels are shown as colours, where 0 is mid-grey; of any other number
    the mean is shown, on a diverging scale.
    """
    columns = min(16, kernel.shape[-1])
    rows = -(-kernel.shape[-1] // columns)
    title = "Principal components of the first layer's filters"
    # At least as wide as the title.
    width = max(4.8, 0.3 + 0.52 * columns)
    figure = style.new_figure(width, 0.9 + 0.52 * rows, title)
    for index in range(kernel.shape[-1]):
        axes = figure.add_subplot(rows, columns, index + 1)
        weights = kernel[..., index].astype(np.float64)
        if weights.shape[-1] != 3:
            weights = weights.mean(axis=-1)
        limit = max(np.abs(weights).max(), 1e-12)
        if weights.ndim == 3:
            axes.imshow(0.5 + 0.5 * weights / limit)
        else:
            axes.imshow(weights, cmap=style.DIVERGING, vmin=-limit, vmax=limit)
        axes.set(xticks=[], yticks=[])
    note = "mid-grey is 0" if kernel.shape[2] == 3 else "white is 0"
    figure.supxlabel(f"in order; each scaled to its own range, {note}", fontsize=9)
    return figure


def feature_maps(
    image: UInt8[np.ndarray, "h w c"], maps: Mapping[str, Float[np.ndarray, "_ _ _"]]
) -> Figure:
    """The image, and a row of the first eight channels of each layer, by name.

    `maps` are [height, width, channels]; each channel has its own colour range.
    """
    num_channels = 8
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
            axes.set(xticks=[], yticks=[])
            if channel == 0:
                size = " × ".join(map(str, values.shape))
                axes.set_title(f"{name} ({size})", fontsize=9, loc="left", pad=3)
    return figure
