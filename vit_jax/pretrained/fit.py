"""Fits positions and patch kernels to another size of grid and patch.

Every rule is linear and treats rows and columns separately, so it is a matrix [new,
old] for each axis.

`jax.image.scale_and_translate` can compute these rules, but in float32, and two of them
by a method that its documentation does not name (JAX 0.10). `scipy.ndimage.zoom` has
"zoom" alone. Neither returns the matrix, whose pseudo-inverse `resize_kernel` takes.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

Matrix = Float[np.ndarray, "new old"]


def cubic_antialias(old: int, new: int) -> Matrix:
    """Cubic interpolation (Keys, 1981, a = -0.5), widened where the size shrinks.

    This is what timm, Pillow and `jax.image.resize(..., "cubic", antialias=True)` do.
    Places outside of the grid have no weight, and the other weights are scaled to a sum
    of 1.
    """
    scale = max(old / new, 1.0)
    distances = _centres(old, new)[:, None] - np.arange(old)
    weights = _keys(np.abs(distances) / scale, a=-0.5)
    return weights / weights.sum(axis=1, keepdims=True)


# All rules but `cubic_antialias` have no antialias and repeat the border.
RULES: dict[str, Callable[[int, int], Matrix]] = {
    "cubic_antialias": cubic_antialias,
    # torch.nn.functional.interpolate(mode="bicubic"), with a = -0.75.
    "cubic": lambda old, new: _cubic_at(_centres(old, new), old),
    # The same, with DINO's 0.1 that is added to the new size before it divides.
    "dino": lambda old, new: _cubic_at(_centres(old, new, enlarged=0.1), old),
    # As timm resizes Google's positions.
    "bilinear": lambda old, new: _linear_at(_centres(old, new), old),
    # scipy.ndimage.zoom(order=1), as vision_transformer and big_vision have it: the
    # outermost places stay where they are.
    "zoom": lambda old, new: _linear_at(np.linspace(0, old - 1, new), old),
}


def resize_grid(
    grid: Float[np.ndarray, "rows columns width"], size: tuple[int, int], rule: str
) -> Float[np.ndarray, "new_rows new_columns width"]:
    """Positions of a grid of patches for a grid of another size, by one of `RULES`."""
    if grid.shape[:2] == size:
        return grid
    rows, columns = (RULES[rule](grid.shape[i], size[i]) for i in (0, 1))
    return np.einsum("ra,abw,cb->rcw", rows, grid, columns).astype(np.float32)


def resize_kernel(
    kernel: Float[np.ndarray, "side side channels width"], side: int
) -> Float[np.ndarray, "new_side new_side channels width"]:
    """The kernel of a patch projection for patches of another size.

    Its products with patches that were resized by `cubic_antialias` come as close as
    possible to those of the old kernel with the patches as they were; for larger
    patches they are equal (Beyer et al., 2023, "FlexiViT: One Model for All Patch
    Sizes", equation 5).
    """
    inverse = np.linalg.pinv(cubic_antialias(kernel.shape[0], side).T)
    resized = np.einsum("ra,abio,cb->rcio", inverse, kernel, inverse)
    return resized.astype(np.float32)


def _centres(old: int, new: int, enlarged: float = 0.0) -> Float[np.ndarray, " {new}"]:
    """Where the middle of each new pixel lies among the old ones."""
    return (np.arange(new) + 0.5) * old / (new + enlarged) - 0.5


def _keys(distance: np.ndarray, *, a: float) -> np.ndarray:
    """The cubic convolution kernel of Keys (1981) at distances from 0."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _cubic_at(places: Float[np.ndarray, " new"], old: int) -> Matrix:
    return _gathered(places, old, range(-1, 3), lambda x: _keys(np.abs(x), a=-0.75))


def _linear_at(places: Float[np.ndarray, " new"], old: int) -> Matrix:
    return _gathered(places, old, range(2), lambda x: np.maximum(1 - np.abs(x), 0))


def _gathered(
    places: Float[np.ndarray, " new"], old: int, taps: range, kernel: Callable
) -> Matrix:
    """Weights of the neighbours `taps`; those outside count as the border."""
    matrix = np.zeros((len(places), old))
    start = np.floor(places).astype(int)
    for tap in taps:
        inside = np.clip(start + tap, 0, old - 1)
        np.add.at(
            matrix, (np.arange(len(places)), inside), kernel(places - start - tap)
        )
    return matrix
