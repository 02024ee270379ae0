"""The t-SNE plane of features."""

import numpy as np
import sklearn.manifold
from jaxtyping import Float


def embed(features: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
    """t-SNE (van der Maaten and Hinton, 2008) to two dimensions, with a fixed seed."""
    perplexity = min(30.0, (len(features) - 1) / 3)
    return sklearn.manifold.TSNE(perplexity=perplexity, random_state=0).fit_transform(
        features
    )
