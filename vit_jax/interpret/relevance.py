"""Attention weighted by what it does to a class: relevance for transformers."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from vit_jax.interpret.attention import Attention
from vit_jax.models import ViT
from vit_jax.runs.run import Run


def relevance_maps(
    run: Run,
    images: UInt8[np.ndarray, "batch height width channels"],
    classes: Int[np.ndarray, " batch"],
    attention: Attention,
) -> Float[np.ndarray, "batch rows columns"]:
    """How much each patch contributes to the class, 0 or more (Chefer et al., 2021).

    Args:
      run: of a ViT.
      images: as the model takes them.
      classes: to explain, one for each image.
      attention: of the same images.
    """
    gradients = attention_gradients(
        run.variables, run.normalize(images), classes, attention.weights, run.model
    )
    moved = propagate(attention.weights, np.asarray(gradients))
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


@functools.partial(jax.jit, static_argnames="model")
def attention_gradients(
    variables: Any,
    images: Float[Array, "batch height width channels"],
    classes: Int[Array | np.ndarray, " batch"],
    weights: Float[Array | np.ndarray, "batch blocks heads tokens tokens"],
    model: ViT,
) -> Float[Array, "batch blocks heads tokens tokens"]:
    """Derivative of each image's logit of its class by each attention weight.

    Args:
      weights: only the shape is used.
    """

    def chosen_logits(offsets):
        perturbations = {
            f"block{i}": {"attention": {"attention": offsets[:, i]}}
            for i in range(model.depth)
        }
        logits = model.apply(
            {**variables, "perturbations": perturbations}, images, train=False
        )
        return jnp.take_along_axis(logits, jnp.asarray(classes)[:, None], axis=1).sum()

    return jax.grad(chosen_logits)(jnp.zeros(weights.shape))
