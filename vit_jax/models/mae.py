"""Masked autoencoding: a ViT that reconstructs the patches it does not see."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int, Key
from ml_collections import ConfigDict

from vit_jax.errors import UserError
from vit_jax.models.block_settings import BlockSettings, block_settings
from vit_jax.models.embeddings import sinusoidal_2d
from vit_jax.models.encoder import EncoderBlock
from vit_jax.models.initializers import TOKEN_INITS, dense_inits
from vit_jax.models.norms import LayerNorm
from vit_jax.models.vit import ViT


class MaskedAutoencoder(ViT):
    """He et al., 2022, "Masked Autoencoders Are Scalable Vision Learners".

    The ViT encodes the visible patches only; a smaller decoder predicts the pixels of
    all patches. The parameters of the encoder have the names that they have in a ViT,
    whose head (and learned pooling) is missing; those of the decoder are in "decoder".

    Hidden pixels are set to 0, the mean of normalised images, before the stem, because
    the receptive fields of a convolutional stem reach into neighbouring patches.

    The group `mae` of the settings says what each attribute is, beside those of `ViT`;
    `num_classes` is not used.
    """

    mask_ratio: float = 0.75
    decoder_width: int = 96
    decoder_depth: int = 2
    decoder_heads: int = 3

    @nn.compact
    def __call__(
        self,
        images: Float[Array, "batch height width channels"],
        visible: Int[Array, "batch visible"] | None = None,
        *,
        train: bool = False,
    ) -> Float[Array, "batch patches values"]:
        """The float32 prediction for each patch, in the order of `to_patches`.

        Args:
          images: normalised.
          visible: indices of the patches that are seen, as many in each image; None:
            all.
          train: whether dropout acts.
        """
        batch, height, width, channels = images.shape
        rows, columns = height // self.patch_size, width // self.patch_size
        if visible is None:
            visible = jnp.tile(jnp.arange(rows * columns), (batch, 1))
        hidden = hidden_patches(visible, rows * columns)
        tokens = self.embed(hide_patches(images, hidden, self.patch_size), train=train)
        before, patches, after = jnp.split(
            tokens,
            [self.num_prefix_tokens, self.num_prefix_tokens + rows * columns],
            axis=1,
        )
        patches = jnp.take_along_axis(patches, visible[..., None], axis=1)
        tokens = jnp.concatenate([before, patches, after], axis=1)
        tokens = self.encode(tokens, train=train)
        # The registers have done their work in the encoder.
        tokens = tokens[:, : self.num_prefix_tokens + visible.shape[1]]
        x = tokens.astype(jnp.float32)
        patches = x[:, self.num_prefix_tokens :]
        # There is no learned pooling, for which the mean has to stand.
        features = x[:, 0] if self.pooling == "cls" else patches.mean(axis=1)
        self.sow("intermediates", "features", features)
        decoder = Decoder(
            self.decoder_width,
            self.decoder_depth,
            num_values=self.patch_size**2 * channels,
            settings=dataclasses.replace(
                block_settings(self), num_heads=self.decoder_heads
            ),
            token_init=self.token_init,
            name="decoder",
        )
        return decoder(tokens, visible, (rows, columns), train=train)

    def num_visible(self, num_patches: int) -> int:
        """The number of visible patches of an image with `num_patches`."""
        return round((1 - self.mask_ratio) * num_patches)

    def draw_visible(
        self, keys: Key[Array, " batch"], image_shape: tuple[int, int, int]
    ) -> Int[Array, "batch visible"]:
        """Random visible patches of each image, every set of them equally probable."""
        height, width, _ = image_shape
        num_patches = height * width // self.patch_size**2
        orders = jax.vmap(lambda key: jax.random.permutation(key, num_patches))(keys)
        return orders[:, : self.num_visible(num_patches)]


class Decoder(nn.Module):
    """Predicts every patch from the encoded visible ones.

    Each hidden patch enters as the same learned token, and has `num_values` pixel
    values. Positions are sines and cosines of row and column.
    """

    width: int
    depth: int
    num_values: int
    settings: BlockSettings
    token_init: str = "normal"

    @nn.compact
    def __call__(
        self,
        encoded: Float[Array, "batch encoded encoder_width"],
        visible: Int[Array, "batch visible"],
        grid: tuple[int, int],
        *,
        train: bool,
    ) -> Float[Array, "batch patches values"]:
        settings = self.settings
        inits = dense_inits(settings.layer_init, encoded.shape[-1])
        x = nn.Dense(self.width, dtype=settings.dtype, name="embedding", **inits)(
            encoded
        )
        num_others = encoded.shape[1] - visible.shape[1]
        others, seen = x[:, :num_others], x[:, num_others:]
        init = TOKEN_INITS[self.token_init]
        token = self.param("mask_token", init, (1, 1, self.width)).astype(x.dtype)
        positions = sinusoidal_2d(*grid, self.width)[None]
        shape = (len(x), *positions.shape[1:])
        patches = jax.vmap(lambda all_, i, some: all_.at[i].set(some))(
            jnp.broadcast_to(token, shape), visible, seen
        )
        patches += positions.astype(x.dtype)
        x = jnp.concatenate([others, patches], axis=1)
        for i in range(self.depth):
            x = EncoderBlock(settings, name=f"block{i}")(x, train=train)
        x = LayerNorm(settings.norm_eps, settings.dtype, name="norm")(x)
        inits = dense_inits(settings.layer_init, self.width)
        pixels = nn.Dense(self.num_values, name="pixels", **inits)
        return pixels(x[:, num_others:].astype(jnp.float32))


def make_autoencoder(
    vit: nn.Module,
    config_mae: ConfigDict | Mapping[str, Any],
    image_shape: tuple[int, int, int],
) -> MaskedAutoencoder:
    """The autoencoder whose encoder is `vit`, as the group `mae` of the settings says.

    Raises:
      UserError: the model is no ViT, or settings do not fit each other or the image.
    """
    if not isinstance(vit, ViT):
        raise UserError(
            "config.objective is masked_autoencoding, but config.model.name is a "
            f"{type(vit).__name__}, which has no patches to hide; take a ViT."
        )
    fields = {field.name for field in dataclasses.fields(ViT)} - {"parent", "name"}
    model = MaskedAutoencoder(
        **{name: getattr(vit, name) for name in fields}, **dict(config_mae)
    )
    num_patches = image_shape[0] * image_shape[1] // vit.patch_size**2
    num_visible = model.num_visible(num_patches)
    if not 0 < num_visible < num_patches:
        raise UserError(
            f"config.mae.mask_ratio is {model.mask_ratio:g}, which hides "
            f"{num_patches - num_visible} of {num_patches} patches, but some must be "
            "hidden and some visible; take a value such as 0.75, or a smaller "
            "config.model.patch_size."
        )
    divisors = {
        "4, for the positions": 4,
        "config.mae.decoder_heads": model.decoder_heads,
    }
    for name, divisor in divisors.items():
        if model.decoder_width % divisor:
            raise UserError(
                f"config.mae.decoder_width is {model.decoder_width}, but must be "
                f"divisible by {name} ({divisor}); take for example "
                f"{4 * model.decoder_heads * 8}."
            )
    return model


def to_patches(
    images: Float[Array, "batch height width channels"], patch_size: int
) -> Float[Array, "batch patches values"]:
    """The patches row by row; each has its pixels row by row, channels last."""
    batch, height, width, channels = images.shape
    shape = (height // patch_size, patch_size, width // patch_size, patch_size)
    cut = images.reshape(batch, *shape, channels).swapaxes(2, 3)
    return cut.reshape(batch, -1, patch_size**2 * channels)


def from_patches(
    patches: Float[Array, "batch patches values"],
    image_shape: tuple[int, int, int],
    patch_size: int,
) -> Float[Array, "batch height width channels"]:
    """The images that `to_patches` divided."""
    height, width, channels = image_shape
    rows, columns = height // patch_size, width // patch_size
    cut = patches.reshape(-1, rows, columns, patch_size, patch_size, channels)
    return cut.swapaxes(2, 3).reshape(-1, *image_shape)


def hidden_patches(
    visible: Int[Array, "batch visible"], num_patches: int
) -> Bool[Array, "batch patches"]:
    """True for the patches that are not visible."""
    return ~jax.nn.one_hot(visible, num_patches, dtype=bool).any(axis=1)


def hide_patches(
    images: Float[Array, "batch height width channels"],
    hidden: Bool[Array, "batch patches"],
    patch_size: int,
) -> Float[Array, "batch height width channels"]:
    """The images with 0 in place of every pixel of the hidden patches."""
    patches = to_patches(images, patch_size)
    shown = jnp.where(hidden[..., None], 0, patches)
    return from_patches(shown, images.shape[1:], patch_size)


def patch_statistics(
    images: Float[Array, "batch height width channels"], patch_size: int
) -> tuple[Float[Array, "batch patches 1"], Float[Array, "batch patches 1"]]:
    """Mean and standard deviation of the values of each patch.

    The deviation is above 0, because 1e-6 is added to the variance.
    """
    patches = to_patches(images, patch_size)
    variance = patches.var(axis=-1, keepdims=True)
    return patches.mean(axis=-1, keepdims=True), jnp.sqrt(variance + 1e-6)
