"""How much memory a model takes, from the shapes alone: nothing is computed."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.models.mae import MaskedAutoencoder
from vit_jax.models.variables import output_shapes
from vit_jax.models.vit import ViT


def num_bytes(tree: Any) -> int:
    """Size of all arrays, or of all ShapeDtypeStructs of arrays."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def activation_bytes(model: nn.Module, input_shape: tuple[int, int, int]) -> list[int]:
    """Sizes of the outputs of all layers for one image [height, width, channels].

    Without a gradient no layer's output is kept longer than the next one needs it.
    Attention weights have the model's dtype, and fused attention stores none.
    """
    outputs = output_shapes(model, input_shape)
    if not isinstance(model, ViT):
        return [num_bytes(leaf) for leaf in jax.tree.leaves(outputs)]
    dtype = jnp.dtype(model.dtype)
    widths = {model.num_heads: model.width // model.num_heads}
    if isinstance(model, MaskedAutoencoder):
        widths[model.decoder_heads] = model.decoder_width // model.decoder_heads
    asked = model.attention_implementation
    is_fused = {
        heads: backend.attention_implementation(asked, dtype, width) == "cudnn"
        for heads, width in widths.items()
    }
    sizes = []
    for leaf in jax.tree.leaves(outputs):
        heads = leaf.shape[1] if leaf.ndim == 4 else 0
        # Only attention weights have two equal axes behind one of the heads.
        if heads in widths and leaf.shape[2] == leaf.shape[3]:
            sizes.append(0 if is_fused[heads] else leaf.size * dtype.itemsize)
        else:
            sizes.append(num_bytes(leaf))
    return sizes


def require_memory(needs: dict[str, int], free: int | None) -> None:
    """Refuses what cannot fit, before anything is allocated.

    Args:
      needs: bytes of each thing, by what it is.
      free: bytes; None if unknown, and nothing is refused.

    Raises:
      UserError: names the largest of the needs and both sums.
    """
    needed = sum(needs.values())
    if free is not None and needed > free:
        largest = max(needs, key=needs.__getitem__)
        raise UserError(
            f"This takes at least {needed / 1e9:,.1f} GB of memory, of which "
            f"{needs[largest] / 1e9:,.1f} GB are for {largest}, but "
            f"{free / 1e9:,.1f} GB are free; make that smaller."
        )


def require_memory_to_score(
    model: nn.Module,
    image_shape: tuple[int, ...],
    input_shape: tuple[int, int, int],
    *,
    batch_size: int,
    free: int | None,
    kept: dict[str, int] | None = None,
) -> None:
    """Refuses an evaluation that takes more memory than is free on a device.

    The images count as they are stored, and of their float32 copy and the layers'
    outputs the largest one counts.

    Args:
      image_shape: of an image as it is stored.
      input_shape: of an image as the model sees it.
      batch_size: images on the device.
      free: see `require_memory`.
      kept: bytes of what is there besides, by what it is.

    Raises:
      UserError: says what takes the most.
    """
    what = "images to score (config.eval_batch_size)" if batch_size > 1 else "one image"
    read, seen = math.prod(image_shape), math.prod(input_shape)
    largest = max(4 * seen, *activation_bytes(model, input_shape))
    needs = {
        what: batch_size * read,
        f"the largest output for {what}": batch_size * largest,
    }
    require_memory((kept or {}) | needs, free)
