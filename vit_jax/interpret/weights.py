"""Learned weights of a model's first layers; no image is needed to show them."""

import numpy as np
from jaxtyping import Float
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity

from vit_jax.models import ViT
from vit_jax.runs.run import Run

_MAX_FILTERS = 28


def stem_filters(run: Run) -> Float[np.ndarray, "height width channels filters"]:
    """Principal components of the first layer's filters, the strongest first.

    Dosovitskiy et al., 2021, figure 7 (left). Shifted patches show the unshifted view.
    """
    params = run.variables["params"]
    if not isinstance(run.model, ViT):
        kernel = params["stem_conv"]["kernel"]
    elif run.model.stem == "conv":
        kernel = params["stem"]["conv0"]["kernel"]
    else:
        kernel = params["stem"]["projection"]["kernel"]
    if kernel.ndim == 2:
        side, channels = run.model.patch_size, run.image_shape[2]
        kernel = kernel.reshape(side, side, -1, kernel.shape[1])[:, :, :channels]
    filters = np.asarray(kernel).reshape(-1, kernel.shape[-1]).T
    # The filters minus their mean span one dimension less than there are filters.
    most = max(1, min(_MAX_FILTERS, len(filters) - 1, filters.shape[1]))
    components = PCA(most).fit(filters).components_
    return components.T.reshape(*kernel.shape[:3], -1)


def position_similarity(
    run: Run,
) -> Float[np.ndarray, "rows columns rows columns"] | None:
    """Cosine similarity of the patches' learned positions; None if there are none."""
    params = run.variables["params"]
    if "positions" not in params:
        return None
    grid = [side // run.model.patch_size for side in run.input_shape[:2]]
    positions = np.asarray(params["positions"][0, -grid[0] * grid[1] :])
    return cosine_similarity(positions).reshape(*grid, *grid)
