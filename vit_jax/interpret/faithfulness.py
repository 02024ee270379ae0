"""Deletion and insertion curves: whether a model uses what a heat map marks."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt8

Images = UInt8[np.ndarray, "n h w c"]
Maps = Float[np.ndarray, "n rows columns"]
Predict = Callable[[np.ndarray], np.ndarray]

# Of the cells that are changed, at each point of a curve. The points are the same for
# every grid, so that curves can be drawn and averaged.
FRACTION = np.linspace(0, 1, 17)


@dataclasses.dataclass(frozen=True)
class Curves:
    """Probability of the explained class of each image, 0 to 1, by `FRACTION`.

    Attributes:
      deletion: as the most marked cells are removed first; falls fast for a good map.
      insertion: as they are put into an empty image first; rises fast for a good map.
    """

    deletion: Float[np.ndarray, "n points"]
    insertion: Float[np.ndarray, "n points"]

    def areas(self, name: str) -> Float[np.ndarray, " n"]:
        """Area under each image's curve "deletion" or "insertion", 0 to 1."""
        return np.trapezoid(getattr(self, name), FRACTION, axis=1)


def mean_and_error(values: Float[np.ndarray, " n *rest"]) -> tuple[Any, Any]:
    """Mean over the images and its standard error; NaN for a single image."""
    n = len(values)
    std = np.std(values, axis=0, ddof=1) if n > 1 else np.nan * values[0]
    return values.mean(axis=0), std / n**0.5


def describe(curves: Curves, control: Curves) -> dict[str, float]:
    """Means and standard errors over the images, also of the difference to a control.

    The difference is taken image by image, which removes the variance that comes from
    the model's confidence in each image.

    Returns:
      deletion, insertion, and of each NAME also NAME_error, NAME_minus_random and
      NAME_minus_random_error.
    """
    described = {}
    for name in ("deletion", "insertion"):
        areas, random = curves.areas(name), control.areas(name)
        for key, values in ((name, areas), (f"{name}_minus_random", areas - random)):
            mean, error = mean_and_error(values)
            described |= {key: float(mean), f"{key}_error": float(error)}
    return described


def ranks(heat_maps: Maps) -> Int[np.ndarray, "n rows columns"]:
    """0 in the cell of each map with the highest value, 1 in the next, and so on.

    Equal cells, such as the many of Grad-CAM that are 0, come in a random order that is
    always the same. In rows from the top they would favour objects there.
    """
    flat = heat_maps.reshape(len(heat_maps), -1)
    # Another seed than that of the random maps, which these are compared with.
    order = np.lexsort((np.random.default_rng(1).random(flat.shape), -flat), axis=1)
    return np.argsort(order, axis=1).reshape(heat_maps.shape)


def to_pixels(cells: np.ndarray, height: int, width: int) -> np.ndarray:
    """[n, rows, columns] spread evenly over the pixels, [n, height, width]."""
    _, rows, columns = cells.shape
    row = np.arange(height) * rows // height
    column = np.arange(width) * columns // width
    return cells[:, row[:, None], column[None]]


def average_to_pixels(
    heat_maps: Maps, height: int, width: int
) -> Float[np.ndarray, "n rows_left columns_left"]:
    """The maps with at most one cell for each pixel, which has its cells' mean."""
    for axis, size in ((1, height), (2, width)):
        cells = heat_maps.shape[axis]
        if cells > size:
            first = np.ceil(np.arange(size) * cells / size).astype(int)
            sums = np.add.reduceat(heat_maps, first, axis=axis)
            counts = np.diff(np.append(first, cells))
            heat_maps = sums / np.expand_dims(counts, 2 - axis)
    return heat_maps


def measure(
    predict: Predict,
    images: Images,
    heat_maps: Maps,
    classes: Int[np.ndarray, " n"],
    fill: UInt8[np.ndarray, " c"],
) -> Curves:
    """Removes and inserts cells of the maps' grid in order of their marks.

    Petsiuk et al., 2018, "RISE" (arXiv:1806.07421), section 4. Their insertion begins
    with the image blurred; here it begins with an image of one colour, so that areas
    compare kinds of maps, and not with those that others published.

    Args:
      predict: images -> probabilities [n, classes].
      classes: the explained class of each image.
      fill: colour of what is removed; the mean of the training images.
    """
    num_cells = heat_maps[0].size
    counts = np.unique((num_cells * FRACTION).round().astype(int))
    pixel_ranks = to_pixels(ranks(heat_maps), *images.shape[1:3])[..., None]
    deletion, insertion = [], []
    for count in counts:
        marked = pixel_ranks < count
        for curve, kept in ((deletion, ~marked), (insertion, marked)):
            changed = np.where(kept, images, fill)
            chosen = np.take_along_axis(predict(changed), classes[:, None], axis=1)
            curve.append(chosen[:, 0])
    join = functools.partial(np.interp, FRACTION, counts / num_cells)
    return Curves(
        np.stack([join(image) for image in np.transpose(deletion)]),
        np.stack([join(image) for image in np.transpose(insertion)]),
    )


def measure_random(
    predict: Predict,
    images: Images,
    grid: tuple[int, int],
    classes: Int[np.ndarray, " n"],
    fill: UInt8[np.ndarray, " c"],
) -> Curves:
    """The control: `measure` for maps of random numbers, averaged over two draws."""
    rng = np.random.default_rng(0)
    draws = [
        measure(predict, images, rng.random((len(images), *grid)), classes, fill)
        for _ in range(2)
    ]
    return Curves(
        np.mean([curves.deletion for curves in draws], axis=0),
        np.mean([curves.insertion for curves in draws], axis=0),
    )


def compare(
    predict: Predict,
    images: Images,
    heat_maps: Mapping[str, Maps],
    classes: Int[np.ndarray, " n"],
    fill: UInt8[np.ndarray, " c"],
) -> tuple[dict[str, Curves], dict[str, dict[str, float]]]:
    """Curves and `describe` of each kind of map by name, and of random ones.

    Removing a coarse cell changes more pixels than removing a fine one. Maps on grids
    of different sizes therefore have different controls, such as "random, 8 × 8".
    """
    heat_maps = {
        # A model may see an image enlarged, with more patches than it has pixels.
        name: average_to_pixels(maps, *images.shape[1:3])
        for name, maps in heat_maps.items()
    }
    grids = {maps.shape[1:] for maps in heat_maps.values()}
    controls = {
        grid: measure_random(predict, images, grid, classes, fill)
        for grid in sorted(grids, reverse=True)
    }
    curves, scores = {}, {}
    for name, maps in heat_maps.items():
        curves[name] = measure(predict, images, maps, classes, fill)
        scores[name] = describe(curves[name], controls[maps.shape[1:]])
    for (rows, columns), control in controls.items():
        name = f"random, {rows} × {columns}"
        curves[name], scores[name] = control, describe(control, control)
    return curves, scores
