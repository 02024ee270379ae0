"""Attention weighted by what it does to a class: relevance for transformers."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, UInt8

from vit_jax.interpret.attention import Attention
from vit_jax.interpret.gradcam import logit_gradients
from vit_jax.runs.run import Run


def relevance_maps(
    run: Run,
    images: UInt8[np.ndarray, "batch height width channels"],
    classes: Int[np.ndarray, " batch"],
    attention: Attention,
) -> Float[np.ndarray, "batch rows columns"]:
    """How much each patch contributes to the class, 0 or more (Chefer et al., 2021).

    `classes` has one to explain for each image, and `attention` is of the same images.
    """
    blocks = [f"block{i}" for i in range(run.model.depth)]
    zeros = jnp.zeros(attention.weights[:, 0].shape)
    offsets = {block: {"attention": {"attention": zeros}} for block in blocks}
    found = logit_gradients(
        run.variables, run.normalize(images), classes, offsets, run.model
    )
    gradients = [found[block]["attention"]["attention"] for block in blocks]
    moved = propagate(attention.weights, np.stack(gradients, axis=1))
    # Less the identity with which `propagate` starts: it is the same for all patches.
    moved = moved - np.eye(moved.shape[-1], dtype=moved.dtype)
    return attention.on_grid(np.einsum("bq,bqk->bk", attention.readout, moved))


def propagate(
    weights: Float[np.ndarray, "*batch blocks heads tokens tokens"],
    gradients: Float[np.ndarray, "*batch blocks heads tokens tokens"],
) -> Float[np.ndarray, "*batch tokens tokens"]:
    """Relevance of each input token (column) to each output token (row).

    Chefer, Gur and Wolf, 2021, "Generic Attention-model Explainability"
    (arXiv:2103.15679), equations 5 and 6: from the identity on, each block adds the
    relevance so far, moved by the positive part of gradient times weight, averaged over
    the heads.
    """
    positive = np.maximum(gradients * weights, 0).mean(axis=-3)
    relevance = np.eye(weights.shape[-1], dtype=weights.dtype)
    for block in np.moveaxis(positive, -3, 0):
        relevance = relevance + block @ relevance
    return relevance
