"""Attention weights of a ViT, read from its forward pass, and heat maps of them.

Maps are fractions on the grid of patches, [batch, rows, columns]. They start from what
the heads read: the class token, or equally the class and distillation tokens; with mean
pooling all patches equally; with sequence pooling the patches, each with its learned
softmax weight.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float, UInt8
from scipy.spatial.distance import cdist

from vit_jax.models import ViT
from vit_jax.runs.run import Run

HEAD_FUSIONS = {"mean": np.mean, "max": np.max, "min": np.min}


@dataclasses.dataclass(frozen=True)
class Attention:
    """Attention in one forward pass.

    Attributes:
      weights: of every block and head; each query's weights sum to 1.
      readout: weight of each token in the input of the head; sums to 1.
      grid: rows and columns of patches.
      first_patch: index of the first patch among the tokens.
    """

    weights: Float[np.ndarray, "batch blocks heads query key"]
    readout: Float[np.ndarray, "batch tokens"]
    grid: tuple[int, int]
    first_patch: int

    @property
    def patches(self) -> slice:
        """Where the patches are among the tokens."""
        return slice(self.first_patch, self.first_patch + self.grid[0] * self.grid[1])

    def on_grid(
        self, values: Float[np.ndarray, "*batch tokens"]
    ) -> Float[np.ndarray, "*batch rows columns"]:
        """The values of the patches on their grid; other tokens are left out."""
        return values[..., self.patches].reshape(*values.shape[:-1], *self.grid)

    def maps(self) -> Float[np.ndarray, "batch blocks heads rows columns"]:
        """Attention of the readout, for example the class token, by block and head.

        With a class token this is its row of the weights (Caron et al., 2021,
        arXiv:2104.14294, figure 1).
        """
        return self.on_grid(np.einsum("bq,blhqk->blhk", self.readout, self.weights))


def read_attention(
    run: Run, images: UInt8[np.ndarray, "batch height width channels"]
) -> Attention:
    """Attention weights of one forward pass of a ViT.

    Needs 4 * batch * blocks * heads * tokens**2 bytes.
    """
    model = run.model
    _, weights, scores = forward_with_attention(
        run.variables, run.normalize(images), model
    )
    height, width, _ = run.input_shape
    grid = (height // model.patch_size, width // model.patch_size)
    num_patches, first_patch = grid[0] * grid[1], model.num_prefix_tokens
    readout = np.zeros((len(images), weights.shape[-1]), np.float32)
    if model.pooling == "cls":
        readout[:, :first_patch] = 1 / first_patch
    elif model.pooling == "mean":
        readout[:, :num_patches] = 1 / num_patches
    else:
        readout[:, :num_patches] = nn.softmax(scores)
    return Attention(np.asarray(weights), readout, grid, first_patch)


@functools.partial(jax.jit, static_argnames="model")
def forward_with_attention(
    variables: Any, images: Float[Array, "b h w c"], model: ViT
) -> tuple[Array, Array, Array | None]:
    """(logits, weights [b, blocks, heads, t, t], sequence pooling's scores or None)."""
    logits, state = model.apply(
        variables,
        images,
        train=False,
        mutable=["intermediates"],
        capture_intermediates=lambda module, _: module.name == "pool",
    )
    seen = state["intermediates"]
    blocks = [seen[f"block{i}"]["attention"] for i in range(model.depth)]
    weights = jnp.stack([block["attention"][0] for block in blocks], axis=1)
    scores = seen["pool"]["__call__"][0][..., 0] if "pool" in seen else None
    return logits, weights, scores


def rollout(
    weights: Float[np.ndarray, "*batch blocks heads tokens tokens"],
    *,
    head_fusion: str = "mean",
    discard_ratio: float = 0.0,
) -> Float[np.ndarray, "*batch tokens tokens"]:
    """The contribution of each input token to each output token.

    Abnar and Zuidema, 2020, "Quantifying Attention Flow in Transformers"
    (arXiv:2005.00928), equation 1: the product over the blocks of their attention, to
    which the identity is added for the residual connection. Rows sum to 1.

    Args:
      weights: of each block, the first block first.
      head_fusion: "mean", as in the paper, "max" or "min" over the heads.
      discard_ratio: fraction of each query's weights, the smallest ones, that are set
        to 0; below 1.
    """
    fused = HEAD_FUSIONS[head_fusion](weights, axis=-3)
    num_tokens = fused.shape[-1]
    num_discarded = int(discard_ratio * num_tokens)
    if num_discarded:
        smallest = np.argsort(fused, axis=-1, kind="stable")[..., :num_discarded]
        fused = fused.copy()
        np.put_along_axis(fused, smallest, 0, axis=-1)
    fused = fused + np.eye(num_tokens, dtype=fused.dtype)
    fused = fused / fused.sum(axis=-1, keepdims=True)
    blocks = np.moveaxis(fused, -3, 0)
    return functools.reduce(lambda below, block: block @ below, blocks)


def rollout_maps(
    attention: Attention, **options: Any
) -> Float[np.ndarray, "batch rows columns"]:
    """`rollout` from the readout to the patches; `options` are those of `rollout`."""
    flow = rollout(attention.weights, **options)
    return attention.on_grid(np.einsum("bq,bqk->bk", attention.readout, flow))


def mean_distances(
    attention: Attention, patch_size: float | Float[np.ndarray, " 2"]
) -> Float[np.ndarray, "blocks heads"]:
    """Mean distance in pixels from a patch to those it attends to, by attention weight.

    Dosovitskiy et al., 2021, figure 7 (right): a head's counterpart of a receptive
    field. The mean is over all patches and images. Class token and registers are left
    out, and each query's weights of the patches are rescaled to sum to 1.
    """
    distances = patch_distances(attention.grid, patch_size)
    weights = attention.weights[..., attention.patches, attention.patches]
    weights = weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-12)
    return np.einsum("blhqk,qk->lh", weights, distances) / (
        len(weights) * len(distances)
    )


def patch_distances(
    grid: tuple[int, int], patch_size: float | Float[np.ndarray, " 2"]
) -> Float[np.ndarray, "patches patches"]:
    """Distance in pixels of each patch's centre to each other's.

    `patch_size` is in pixels, of height and width if they differ. The result's mean is
    the mean distance of a head that attends to all patches equally.
    """
    places = np.indices(grid).reshape(2, -1).T * patch_size
    return cdist(places, places).astype(np.float32)
