"""Grids of images (samples, predictions, patches, ...), and their pixel values."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vit_jax.figures import style


def predictions(
    images: UInt8[np.ndarray, "n h w c"],
    labels: Int[np.ndarray, " n"],
    predicted: Int[np.ndarray, " n"],
    confidence: Float[np.ndarray, " n"],
    class_names: Sequence[str],
    *,
    title: str = "Sample predictions",
) -> Figure:
    """Each image with its true class, and the predicted one with its confidence.

    A correct prediction has a check mark and a green frame, a wrong one a cross and a
    dashed red frame.
    """
    # At 9 points a caption with more than "automobile" would meet its neighbour.
    size = 9 if max(map(len, class_names)) <= 10 else 8
    short = style.short_names(class_names)

    def draw(axes: Axes, index: int) -> None:
        right = labels[index] == predicted[index]
        name = f"{short[predicted[index]]} ({100 * confidence[index]:.0f}%)"
        true = short[labels[index]]
        text = f"✓ {name}\n" if right else f"✗ true {true},\npredicted {name}"
        color = style.GREEN if right else style.RED
        style.show_image(axes, images[index], text, color=color, fontsize=size)
        axes.spines[:].set(color=color, linewidth=2.5, linestyle="-" if right else "--")

    return _grid(len(images), 4, draw, title, cell=(1.95, 2.1))


def disagreements(
    images: UInt8[np.ndarray, "n h w c"],
    labels: Int[np.ndarray, " n"],
    probabilities: Float[np.ndarray, "n k"],
    people: Float[np.ndarray, "n k"],
    class_names: Sequence[str],
) -> Figure:
    """Each image with its label and the first choices of the model and of people.

    `probabilities` are the model's, and `people` has the fraction of people who chose
    each class.
    """
    short = style.short_names(class_names)

    def draw(axes: Axes, index: int) -> None:
        lines = [f"label: {short[labels[index]]}"]
        for who, values in (("model", probabilities), ("people", people)):
            first = values[index].argmax()
            percent = 100 * values[index, first]
            lines.append(f"{who}: {short[first]} ({percent:.0f}%)")
        style.show_image(axes, images[index], "\n".join(lines))

    title = "Where model and people differ most"
    return _grid(len(images), 4, draw, title, cell=(2.05, 2.35))


def class_samples(
    images: UInt8[np.ndarray, "k samples h w c"],
    class_names: Sequence[str],
    which: str = "each class",
) -> Figure:
    """One row for each class, its name on the left; `which` they are, for the title."""
    num_samples, names = images.shape[1], style.short_names(class_names, 24)
    figure = _grid(
        len(class_names) * num_samples,
        num_samples,
        lambda axes, index: style.show_image(axes, images[divmod(index, num_samples)]),
        f"Samples of {which}",
        cell=(0.8, 0.8),
        # A letter of a name is 0.08 inches wide.
        margin=0.2 + 0.08 * max(map(len, names)),
    )
    for axes, name in zip(figure.axes[::num_samples], names, strict=True):
        axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=10)
    return figure


def image_and_patches(image: UInt8[np.ndarray, "h w c"], patch_size: int) -> Figure:
    """An image, and its patches of `patch_size` pixels, each of which is one token.

    Pixels beyond the last whole patch are not shown among the patches.
    """

    def draw(axes: Axes, index: int) -> None:
        if index == 0:
            style.show_image(axes, image, "image", fontsize=11)
        else:
            _show_patches(axes, image, patch_size, "patches")

    title = _describe_patches(image.shape[:2], patch_size)
    return _grid(2, 2, draw, title, cell=(3.6, 3.7))


def class_patches(
    images: UInt8[np.ndarray, "k h w c"],
    class_names: Sequence[str],
    patch_size: int,
    which: str = "each class",
) -> Figure:
    """An image of each class with the borders of its patches.

    Pixels beyond the last whole patch are not shown. The title says `which` classes
    they are.
    """

    short = style.short_names(class_names)

    def draw(axes: Axes, index: int) -> None:
        _show_patches(axes, images[index], patch_size, short[index])

    title = _describe_patches(images.shape[1:3], patch_size)
    title = f"One image of {which} as {title}"
    return _grid(len(images), 5, draw, title, cell=(2.0, 2.15))


def _show_patches(
    axes: Axes, image: UInt8[np.ndarray, "h w c"], patch_size: int, title: str
) -> None:
    """Draws an image with lines between its patches."""
    height, width = (side - side % patch_size for side in image.shape[:2])
    style.show_image(axes, image[:height, :width], title, fontsize=11)
    # In a colour that no grey image has, since white lines would join white patches.
    line = {"color": style.ORANGE, "linewidth": 0.9}
    for y in range(patch_size, height, patch_size):
        axes.axhline(y - 0.5, **line)
    for x in range(patch_size, width, patch_size):
        axes.axvline(x - 0.5, **line)


def _describe_patches(shape: tuple[int, int], patch_size: int) -> str:
    rows, across = (side // patch_size for side in shape)
    size = f"{patch_size} × {patch_size}"
    return f"{rows} × {across} = {rows * across} patches of {size} pixels"


def augmentations(
    originals: UInt8[np.ndarray, "n h w c"],
    augmented: UInt8[np.ndarray, "n variants h w c"],
    *,
    names: Sequence[str],
    captions: Sequence[Sequence[str]],
    title: str = "Augmentation",
) -> Figure:
    """One row for each image: the original, then what training sees of it.

    `names` are the classes of the originals, and `captions` has a text for each view,
    such as what it was mixed with.
    """
    columns, short = 1 + augmented.shape[1], style.short_names(names)

    def draw(axes: Axes, index: int) -> None:
        row, column = divmod(index, columns)
        if column:
            caption = captions[row][column - 1]
            style.show_image(axes, augmented[row, column - 1], caption, fontsize=6)
        else:
            style.show_image(axes, originals[row], short[row], fontsize=8)
            axes.spines[:].set(color=style.BLUE, linewidth=2.5)

    return _grid(len(originals) * columns, columns, draw, title, cell=(1.05, 1.12))


def reconstructions(images: UInt8[np.ndarray, "n 3 h w c"]) -> Figure:
    """One row for each image: as it is, what the model saw, and what it predicted."""
    captions = ("image", "visible patches", "reconstruction")

    def draw(axes: Axes, index: int) -> None:
        row, column = divmod(index, 3)
        style.show_image(axes, images[row, column], "" if row else captions[column])

    title = "Reconstructions of hidden patches"
    return _grid(3 * len(images), 3, draw, title, cell=(1.15, 1.1))


def pairs(
    left: UInt8[np.ndarray, "n h w c"],
    right: UInt8[np.ndarray, "n h w c"],
    captions: Sequence[str],
    *,
    title: str = "Near-duplicates",
) -> Figure:
    """Two images side by side under each caption, such as duplicates in two splits."""
    both = np.concatenate([left, right], axis=2)
    return _grid(
        len(both),
        4,
        lambda axes, index: style.show_image(axes, both[index], captions[index]),
        title,
        cell=(2.2, 1.35),
    )


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


def _grid(
    count: int,
    columns: int,
    draw: Callable[[Axes, int], None],
    title: str,
    *,
    cell: tuple[float, float],
    margin: float = 0.2,
) -> Figure:
    """`count` axes in rows of `columns`, each filled by `draw`; cells are in inches."""
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    lines = title.split("\n")
    # The grid may be narrower than its title, a letter of which is 0.11 inches wide.
    width = max(margin + cell[0] * columns, 0.2 + 0.11 * max(map(len, lines)))
    height = 0.3 + 0.2 * len(lines) + cell[1] * rows
    figure = style.new_figure(width, height, title)
    for index in range(count):
        draw(figure.add_subplot(rows, columns, index + 1), index)
    return figure
