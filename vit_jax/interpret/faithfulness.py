"""Does a model use what a map marks? Deletion and insertion curves."""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int, UInt8

Images = UInt8[np.ndarray, "n h w c"]
Maps = Float[np.ndarray, "n rows columns"]
Predict = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Curves:
    """Mean probability of the explained class over the images, 0 to 1.

    Attributes:
      share: of cells changed, from 0 to 1.
      deletion: as the most marked cells are removed first; falls fast for a good map.
      insertion: as they are put into an empty image first; rises fast for a good map.
    """

    share: Float[np.ndarray, "points"]
    deletion: Float[np.ndarray, "points"]
    insertion: Float[np.ndarray, "points"]

    @property
    def deletion_score(self) -> float:
        """Area under the deletion curve, 0 to 1; lower is better."""
        return float(np.trapezoid(self.deletion, self.share))

    @property
    def insertion_score(self) -> float:
        """Area under the insertion curve, 0 to 1; higher is better."""
        return float(np.trapezoid(self.insertion, self.share))


def most_marked(heat_maps: Maps, count: int) -> np.ndarray:
    """bool, True in the `count` cells of each map with the highest values."""
    flat = heat_maps.reshape(len(heat_maps), -1)
    order = np.argsort(-flat, axis=1, kind="stable")
    marked = np.zeros(flat.shape, bool)
    np.put_along_axis(marked, order[:, :count], True, axis=1)
    return marked.reshape(heat_maps.shape)


def to_pixels(cells: np.ndarray, height: int, width: int) -> np.ndarray:
    """[n, rows, columns] spread evenly over the pixels, [n, height, width]."""
    _, rows, columns = cells.shape
    row = np.arange(height) * rows // height
    column = np.arange(width) * columns // width
    return cells[:, row[:, None], column[None]]


def measure(
    predict: Predict,
    images: Images,
    heat_maps: Maps,
    classes: Int[np.ndarray, "n"],
    fill: UInt8[np.ndarray, "c"],
    num_points: int = 17,
) -> Curves:
    """Removes and inserts cells of the maps' grid in order of their marks.

    Petsiuk et al., 2018, "RISE" (arXiv:1806.07421), section 4.

    Args:
      predict: images -> probabilities [n, classes].
      images: as the model takes them.
      heat_maps: one for each image.
      classes: the explained class of each image.
      fill: colour of what is removed; the mean of the training images.
      num_points: of each curve.
    """
    num_cells = heat_maps[0].size
    counts = np.unique(np.linspace(0, num_cells, num_points).round().astype(int))
    deletion, insertion = [], []
    for count in counts:
        marked = to_pixels(most_marked(heat_maps, int(count)), *images.shape[1:3])
        marked = marked[..., None]
        for curve, kept in ((deletion, ~marked), (insertion, marked)):
            changed = np.where(kept, images, fill)
            chosen = np.take_along_axis(predict(changed), classes[:, None], axis=1)
            curve.append(chosen.mean())
    # At the same places for every grid, so that curves can be drawn and averaged.
    share = np.linspace(0, 1, num_points)
    return Curves(
        share,
        np.interp(share, counts / num_cells, deletion),
        np.interp(share, counts / num_cells, insertion),
    )


def measure_random(
    predict: Predict,
    images: Images,
    grid: tuple[int, int],
    classes: Int[np.ndarray, "n"],
    fill: UInt8[np.ndarray, "c"],
    num_draws: int = 5,
    seed: int = 0,
) -> Curves:
    """The control: `measure` for maps of random numbers, averaged over some draws."""
    rng = np.random.default_rng(seed)
    draws = [
        measure(predict, images, rng.random((len(images), *grid)), classes, fill)
        for _ in range(num_draws)
    ]
    return Curves(
        draws[0].share,
        np.mean([curves.deletion for curves in draws], axis=0),
        np.mean([curves.insertion for curves in draws], axis=0),
    )
