"""Fits positions and patch kernels to another size of grid and patch."""

import jax
import numpy as np
import scipy.ndimage
from jaxtyping import Float

# What `jax.image.scale_and_translate` takes, the method and whether with antialias, and
# what is added to the new size before it divides.
RULES = {
    # What timm and Pillow do. Places outside of the grid have no weight.
    "cubic_antialias": ("cubic", True, 0.0),
    # torch.nn.functional.interpolate(mode="bicubic"), which repeats the border.
    "cubic": ("cubic-pytorch", False, 0.0),
    # The same, with the 0.1 that DINO's code adds.
    "dino": ("cubic-pytorch", False, 0.1),
    # As timm resizes Google's positions.
    "bilinear": ("linear", False, 0.0),
    # scipy.ndimage.zoom(order=1), as vision_transformer and big_vision have it: the
    # outermost places stay where they are.
    "zoom": None,
}


def resize_grid(
    grid: Float[np.ndarray, "rows columns width"], size: tuple[int, int], rule: str
) -> Float[np.ndarray, "new_rows new_columns width"]:
    """Positions of a grid of patches for a grid of another size, by one of `RULES`."""
    rows, columns, width = grid.shape
    if (rows, columns) == size:
        return grid
    if rule == "zoom":
        factors = (size[0] / rows, size[1] / columns, 1)
        return scipy.ndimage.zoom(grid, factors, order=1, mode="nearest")
    method, antialias, added = RULES[rule]
    scale = np.array([(size[0] + added) / rows, (size[1] + added) / columns])
    resized = jax.image.scale_and_translate(
        grid, (*size, width), (0, 1), scale, np.zeros(2), method, antialias
    )
    return np.asarray(resized)


def resize_kernel(
    kernel: Float[np.ndarray, "side side channels width"], side: int
) -> Float[np.ndarray, "new_side new_side channels width"]:
    """The kernel of a patch projection for patches of another size.

    Its products with patches that were resized by `cubic_antialias` come as close as
    possible to those of the old kernel with the patches as they were; for larger
    patches they are equal (Beyer et al., 2023, "FlexiViT: One Model for All Patch
    Sizes", equation 5).
    """
    # What the rule makes of each old place alone is its matrix, [new, old].
    places = np.eye(kernel.shape[0], dtype=np.float32)
    matrix = jax.image.resize(places, (side, len(places)), "cubic")
    inverse = np.linalg.pinv(np.asarray(matrix, np.float64).T)
    resized = np.einsum("ra,abio,cb->rcio", inverse, kernel, inverse)
    return resized.astype(np.float32)
