"""From the pixels of an image to what a model takes, and back."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, UInt8


def normalize(
    images: UInt8[Array, "*n c"], mean: Sequence[float], std: Sequence[float]
) -> Float32[Array, "*n c"]:
    """(images / 255 - mean) / std; `mean` and `std` in 0..1, one for each channel."""
    mean, std = (_by_channel(x, images.ndim) for x in (mean, std))
    return (images.astype(jnp.float32) / 255 - mean) / std


def to_pixels(
    images: Float32[Array, "*n c"], mean: Sequence[float], std: Sequence[float]
) -> UInt8[Array, "*n c"]:
    """The inverse of `normalize`, rounded and clipped to 0..255."""
    mean, std = (_by_channel(x, images.ndim) for x in (mean, std))
    return jnp.clip(jnp.round((images * std + mean) * 255), 0, 255).astype(jnp.uint8)


def _by_channel(values: Sequence[float], ndim: int) -> Float32[np.ndarray, "..."]:
    """The values along the last of `ndim` axes."""
    return np.reshape(np.asarray(values, np.float32), (1,) * (ndim - 1) + (-1,))


def input_shape(
    image_shape: tuple[int, int, int], side: int | None
) -> tuple[int, int, int]:
    """The shape of an image after `resize`."""
    return (side, side, image_shape[-1]) if side else image_shape


def resize(
    images: Float32[Array, "*b h w c"], side: int | None
) -> Float32[Array, "*b rows columns c"]:
    """Images of `side` x `side` pixels, by cubic interpolation; unchanged for None."""
    if not side:
        return images
    shape = (*images.shape[:-3], side, side, images.shape[-1])
    return jax.image.resize(images, shape, "cubic", antialias=True)
