"""Images that two splits share, exactly or nearly.

An image seen in training does not test generalisation; CIFAR has such images (Barz &
Denzler, "Do we train on test data?", 2020, arXiv:1902.00423). Images are arrays, or
`vit_jax.data.Rows` of a file, of which only some at once are read.
"""

import hashlib
from typing import Any

import numpy as np
import sklearn.metrics
from jaxtyping import Float32, Int64, UInt8

THUMBNAIL_PIXELS = 16
# At 0.97, 64 test images of CIFAR-10 have a partner in the training split, and each of
# these pairs shows the same object in the same picture. From 0.965 down there are also
# pairs of different birds and planes against a plain sky.
MIN_CORRELATION = 0.97


def exact_duplicates(
    images: UInt8[Any, "n h w c"], others: UInt8[Any, "m h w c"]
) -> Int64[np.ndarray, " found"]:
    """Indices of the `images` that are in `others`, too, with equal pixels."""
    known = {_digest(other) for other in others}
    return np.flatnonzero([_digest(image) in known for image in images])


def near_duplicates(
    ours: Float32[np.ndarray, "n features"], theirs: Float32[np.ndarray, "m features"]
) -> tuple[Int64[np.ndarray, "pairs 2"], Float32[np.ndarray, " pairs"]]:
    """Images whose most similar image of another split is nearly the same.

    Similarity is Pearson's correlation of thumbnails of about 16 pixels a side. It does
    not depend on brightness, contrast and compression, but on shifts, crops and flips.
    The result is therefore a lower bound; comparing neighbours in a network's feature
    space finds more. `MIN_CORRELATION` suits photographs; simple drawings such as
    digits are more similar to each other. An image of one colour is similar to none.

    Args:
      ours, theirs: `thumbnails` of the two splits.

    Returns:
      (index in `ours`, index in `theirs`) and the correlation of each pair, the most
      similar pair first.
    """
    # The nearest unit vector is the one with the highest correlation.
    partner = sklearn.metrics.pairwise_distances_argmin(ours, theirs)
    correlation = (ours * theirs[partner]).sum(axis=1)
    found = np.flatnonzero(correlation >= MIN_CORRELATION)
    found = found[np.argsort(-correlation[found], kind="stable")]
    return np.stack([found, partner[found]], axis=1), correlation[found]


def _digest(image: UInt8[np.ndarray, "h w c"]) -> bytes:
    return hashlib.sha256(image.tobytes()).digest()


def thumbnails(
    images: UInt8[Any, "n h w c"],
) -> Float32[np.ndarray, "n features"]:
    """Block means, scaled to mean 0 and length 1; all 0 for an image of one colour."""
    _, height, width, channels = images.shape
    rows, columns = (max(1, side // THUMBNAIL_PIXELS) for side in (height, width))
    shape = (-1, height // rows, rows, width // columns, columns, channels)
    means = []
    for start in range(0, len(images), 1024):
        some = images[start : start + 1024]
        some = some[:, : height // rows * rows, : width // columns * columns]
        means.append(some.reshape(shape).mean(axis=(2, 4), dtype=np.float32))
    vectors = np.concatenate(means).reshape(len(images), -1)
    vectors -= vectors.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 1e-3)
