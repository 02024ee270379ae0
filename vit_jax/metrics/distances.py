"""Distances within and between classes in a feature space, and its t-SNE plane."""

import math

import numpy as np
import sklearn.manifold
import sklearn.metrics
from jaxtyping import Float, Int

MAX_EXAMPLES = 2000


def class_distances(
    features: Float[np.ndarray, "n d"], labels: Int[np.ndarray, " n"]
) -> dict[str, float]:
    """Mean Euclidean distances within and between classes, in the features' own unit.

    All pairs of examples have the same weight, so a large class counts more. Of more
    than `MAX_EXAMPLES` a fixed random sample without replacement is compared, because
    time and memory grow with the square of their number.

    Returns:
      within (over all pairs of two examples of one class), between (over all pairs of
      examples of different classes), num_examples (how many were compared), and ratio
      (between / within: 1 if classes are not separated, more if they are). What has no
      pairs is NaN.
    """
    if len(labels) > MAX_EXAMPLES:
        rng = np.random.default_rng(0)
        drawn = rng.choice(len(labels), MAX_EXAMPLES, replace=False)
        features, labels = features[drawn], labels[drawn]
    distances = sklearn.metrics.euclidean_distances(features.astype(np.float64))
    first, second = np.triu_indices(len(labels), k=1)
    distances, same = distances[first, second], labels[first] == labels[second]
    within = float(distances[same].mean()) if same.any() else math.nan
    between = float(distances[~same].mean()) if not same.all() else math.nan
    return {
        "within": within,
        "between": between,
        "num_examples": len(labels),
        "ratio": between / within if within else math.nan,
    }


def embed(features: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
    """t-SNE (van der Maaten and Hinton, 2008) to two dimensions, with a fixed seed."""
    # The principal components, where it starts, need two features and some variance:
    # without variance scikit-learn's start is not finite, and it crashes the process.
    is_flat = features.shape[1] < 2 or not np.ptp(features, axis=0).any()
    tsne = sklearn.manifold.TSNE(
        perplexity=min(30.0, (len(features) - 1) / 3),
        init="random" if is_flat else "pca",
        random_state=0,
    )
    return tsne.fit_transform(features)
