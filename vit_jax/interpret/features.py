"""Features of images before a model's head, and their t-SNE plane."""

import functools
from typing import Any

import jax
import numpy as np
import sklearn.manifold
from flax import linen as nn
from jaxtyping import Array, Float, UInt8

from vit_jax.data import batches
from vit_jax.runs.load import Run


def pooled_features(
    run: Run,
    images: UInt8[np.ndarray, "n height width channels"],
    batch_size: int = 128,
) -> Float[np.ndarray, "n features"]:
    """The pooled output of the last block or stage, float32.

    Raises:
      UserError: the images do not have the shape the model was trained on.
    """
    images = run.as_images(images)
    features = [
        np.asarray(_forward(run.variables, run.normalize(images[indices]), run.model))[
            mask
        ]
        for indices, mask in batches.eval_batches(
            len(images), min(batch_size, len(images))
        )
    ]
    return np.concatenate(features)


def embed(features: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
    """t-SNE (van der Maaten and Hinton, 2008) to two dimensions, with a fixed seed."""
    perplexity = min(30.0, (len(features) - 1) / 3)
    return sklearn.manifold.TSNE(perplexity=perplexity, random_state=0).fit_transform(
        features
    )


@functools.partial(jax.jit, static_argnames="model")
def _forward(
    variables: Any, images: Float[Array, "b h w c"], model: nn.Module
) -> Float[Array, "b features"]:
    _, state = model.apply(variables, images, train=False, mutable=["intermediates"])
    return state["intermediates"]["features"][0]
