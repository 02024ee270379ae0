"""The stems, which turn an image into tokens, and sinusoidal positions."""

import math

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from vit_jax.models import backend
from vit_jax.models.initializers import (
    UNIFORM_KERNEL,
    cosine_filters_init,
    projection_inits,
)
from vit_jax.models.norms import LayerNorm, batch_norm


class PatchStem(nn.Module):
    """A linear projection of each patch (Dosovitskiy et al., 2021, equation 1).

    `patch_size`, its side in pixels, divides the image.
    """

    width: int
    patch_size: int
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self, images: Float[Array, "batch height width channels"]
    ) -> Float[Array, "batch rows columns tokens_width"]:
        size = (self.patch_size, self.patch_size)
        return nn.Conv(
            self.width,
            size,
            strides=size,
            padding="VALID",
            # This applies in every scheme: with PyTorch's default the tokens are much
            # larger than the positions that are added to them.
            **projection_inits(self.patch_size**2 * images.shape[-1]),
            dtype=self.dtype,
            name="projection",
        )(images)


class ConvStem(nn.Module):
    """3x3 convolutions without bias, each with a ReLU; their pixels are the tokens.

    The layers form log2(patch_size) stages, the first ones longer where they do not
    divide evenly, and the last layer of each stage halves the image. So `patch_size` is
    the distance of two tokens in pixels. Channels (), width 256, patch size 2 and max
    pooling give the tokenizer of CCT-7/3x1 (Hassani et al., 2021, "Escaping the Big
    Data Paradigm with Compact Transformers").

    With norm "batch", BatchNorm stands between each convolution and its ReLU, and a 1x1
    convolution projects the last layer's pixels to `width`. The batch's statistics are
    what makes a short training work: they also keep the scale of layers that Muon or
    AdamW change quickly. LayerNorm over the channels of each pixel would need no
    running statistics, but costs as much.

    Attributes:
      width: of the tokens. Without norm the last layer has as many channels.
      channels: of every layer, or of every one before the last without norm.
      patch_size: a power of two, at most 2**layers.
      downsampling: how a layer halves the image: "stride" 2 of its convolution, 3x3
        "max_pool" of stride 2 after it, or 2x2 "avg_pool" after it.
      norm: "batch" or "none".
      layer_init: of the kernels: "pytorch", or anything else for He et al. (2015).
      first_init: of the first layer's kernel: "random", as of the others, or "cosine",
        see `cosine_filters_init`, which needs the norm.
    """

    width: int
    channels: tuple[int, ...]
    patch_size: int
    downsampling: str = "max_pool"
    norm: str = "none"
    layer_init: str = "normal"
    first_init: str = "random"
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self, images: Float[Array, "batch height width channels"], *, train: bool
    ) -> Float[Array, "batch rows columns tokens_width"]:
        kernel_init = nn.initializers.he_normal()
        if self.layer_init == "pytorch":
            kernel_init = UNIFORM_KERNEL
        first_init = kernel_init
        if self.first_init == "cosine":
            first_init = cosine_filters_init(kernel_init)
        has_norm = self.norm == "batch"
        channels = self.channels if has_norm else (*self.channels, self.width)
        halving = halving_layers(len(channels), self.patch_size)
        x = images
        for i, channels_out in enumerate(channels):
            x = nn.Conv(
                channels_out,
                (3, 3),
                strides=2 if i in halving and self.downsampling == "stride" else 1,
                padding=1,
                use_bias=False,
                kernel_init=first_init if i == 0 else kernel_init,
                dtype=self.dtype,
                conv_general_dilated=backend.conv_general_dilated(),
                name=f"conv{i}",
            )(x)
            if has_norm:
                x = batch_norm(self.dtype, train)(name=f"norm{i}")(x)
            x = nn.relu(x)
            if i in halving and self.downsampling == "max_pool":
                x = nn.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
            elif i in halving and self.downsampling == "avg_pool":
                x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        if not has_norm:
            return x
        return nn.Conv(
            self.width,
            (1, 1),
            **projection_inits(x.shape[-1]),
            dtype=self.dtype,
            conv_general_dilated=backend.conv_general_dilated(),
            name="projection",
        )(x)


def halving_layers(num_layers: int, patch_size: int) -> set[int]:
    """The layers of a `ConvStem`, counted from 0, that halve the image."""
    num_halvings = patch_size.bit_length() - 1
    return {
        math.ceil(num_layers * i / num_halvings) - 1 for i in range(1, num_halvings + 1)
    }


class ShiftedPatchStem(nn.Module):
    """Shifted patch tokenization (Lee et al., 2021).

    The image and its four shifts by half a patch along the diagonals, padded with
    zeros, are concatenated along the channels; LayerNorm normalises each patch of the
    result, and a dense layer projects it. `patch_size`, its side in pixels, is even and
    divides the image.
    """

    width: int
    patch_size: int
    norm_eps: float = 1e-6
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self, images: Float[Array, "batch height width channels"]
    ) -> Float[Array, "batch rows columns tokens_width"]:
        x = shift_diagonally(images, self.patch_size // 2)
        batch, height, width, channels = x.shape
        side = self.patch_size
        rows, columns = height // side, width // side
        x = x.reshape(batch, rows, side, columns, side, channels).swapaxes(2, 3)
        x = x.reshape(batch, rows, columns, side * side * channels)
        x = LayerNorm(self.norm_eps, self.dtype, name="norm")(x)
        return nn.Dense(
            self.width,
            **projection_inits(x.shape[-1]),
            dtype=self.dtype,
            dot_general=backend.dot_general(),
            name="projection",
        )(x)


def shift_diagonally(
    images: Float[Array, "batch height width channels"], distance: int
) -> Float[Array, "batch height width five_times_channels"]:
    """The images, and the images shifted left-up, right-up, left-down and right-down.

    `distance` is in pixels along each axis; the pixels that are uncovered are 0.
    """
    _, height, width, _ = images.shape
    border = (distance, distance)
    padded = jnp.pad(images, ((0, 0), border, border, (0, 0)))
    views = [images]
    # A window at the bottom right of the padded image is the image moved left and up.
    for top in (2 * distance, 0):
        for left in (2 * distance, 0):
            views.append(padded[:, top : top + height, left : left + width])
    return jnp.concatenate(views, axis=-1)


def sinusoidal_1d(num_positions: int, width: int) -> Float[np.ndarray, "n width"]:
    """Sines and cosines of the position in a sequence (Vaswani et al., 2017).

    Channels 2i and 2i + 1 are sin and cos of position / 10000**(2i / width); `width` is
    even. Values from -1 to 1.
    """
    frequencies = 10000.0 ** (-np.arange(0, width, 2) / width)
    angles = np.arange(num_positions)[:, None] * frequencies[None]
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    return waves.reshape(num_positions, width).astype(np.float32)


def sinusoidal_2d(rows: int, columns: int, width: int) -> Float[np.ndarray, "n width"]:
    """Sines and cosines of the row and of the column of each patch, row by row.

    The first half of the channels encodes the row as `sinusoidal_1d` does with half the
    width, the second half the column; `width` is divisible by 4. Values from -1 to 1.
    """
    of_row = np.repeat(sinusoidal_1d(rows, width // 2), columns, axis=0)
    of_column = np.tile(sinusoidal_1d(columns, width // 2), (rows, 1))
    return np.concatenate([of_row, of_column], axis=1)
