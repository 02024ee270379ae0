"""The Vision Transformer and its variants for small images."""

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float

from vit_jax.models.block_settings import BlockSettings, block_settings
from vit_jax.models.dropout import Dropout
from vit_jax.models.embeddings import (
    ConvStem,
    PatchStem,
    ShiftedPatchStem,
    sinusoidal_1d,
    sinusoidal_2d,
)
from vit_jax.models.encoder import EncoderBlock
from vit_jax.models.initializers import TOKEN_INITS, dense_inits
from vit_jax.models.norms import LayerNorm


class ViT(BlockSettings, nn.Module):
    """Vision Transformer (Dosovitskiy et al., 2021, "An Image is Worth 16x16 Words").

    The order of the tokens is: class token if there is one, distillation token if there
    is one, patches row by row, registers. Sows, in the collection "intermediates",
    "features" (float32 [batch, width], the head's input) and each block's attention
    weights.

    `config.model_settings` says what each attribute does and may be. Beyond that:

    Attributes:
      num_classes: length of the logits.
      patch_size: distance of two tokens in pixels; divides the image.
      position_embedding: "learned"; "sinusoidal_1d" over all tokens but registers in
        order; "sinusoidal_2d" over the patches' grid, zero for what comes before them;
        or "none".
      pooling: input of the head: the "cls" token, the "mean" of the patches, or a
        "sequence" pooling, weighted by a learned softmax (Hassani et al., 2021).
      distillation_token: with pooling "cls", a second token with a head of its own
        (Touvron et al., 2021, "Training data-efficient image transformers &
        distillation through attention", section 4). The logits are the mean of both
        heads'; those of each are sown as "class" and "distillation" in the collection
        "heads".
      drop_path: see `encoder.BranchScale`.
      num_registers: extra tokens without position whose output is not used (Darcet et
        al., 2024, "Vision Transformers Need Registers").
      stem, stem_channels, stem_downsampling, stem_norm, stem_init: see `embeddings`.
      Others: see `BlockSettings`. Features and logits are float32 whatever the dtype.
    """

    num_classes: int
    patch_size: int = 4
    width: int = 192
    depth: int = 12
    position_embedding: str = "learned"
    token_init: str = "normal"
    pooling: str = "cls"
    distillation_token: bool = False
    final_norm: bool = True
    patch_norm: bool = False
    embedding_dropout: float = 0.0
    drop_path: float = 0.0
    num_registers: int = 0
    stem: str = "patch"
    stem_channels: tuple[int, ...] = ()
    stem_downsampling: str = "max_pool"
    stem_norm: str = "none"
    stem_init: str = "random"

    @property
    def num_prefix_tokens(self) -> int:
        """The number of tokens before the patches, each of which has a head."""
        return int(self.pooling == "cls") * (1 + self.distillation_token)

    @nn.compact
    def __call__(
        self,
        images: Float[Array, "batch height width channels"],
        *,
        train: bool = False,
    ) -> Float[Array, "batch classes"]:
        x = self.encode(self.embed(images, train=train), train=train)
        num_patches = x.shape[1] - self.num_prefix_tokens - self.num_registers
        x = x.astype(jnp.float32)
        if self.pooling == "cls":
            features = x[:, 0]
        elif self.pooling == "mean":
            features = x[:, :num_patches].mean(axis=1)
        else:
            x = x[:, :num_patches]
            # The authors' code has a bias here, which cancels in the softmax.
            kernel_init = dense_inits(self.layer_init, self.width)["kernel_init"]
            scores = nn.Dense(1, use_bias=False, kernel_init=kernel_init, name="pool")
            features = jnp.einsum("bt,btw->bw", nn.softmax(scores(x)[..., 0]), x)
        self.sow("intermediates", "features", features)
        inits = dense_inits(self.layer_init, self.width)
        logits = nn.Dense(self.num_classes, name="head", **inits)(features)
        if self.num_prefix_tokens < 2:
            return logits
        head = nn.Dense(self.num_classes, name="distillation_head", **inits)
        distilled = head(x[:, 1])
        if not self.is_initializing():
            self.sow("heads", "class", logits)
            self.sow("heads", "distillation", distilled)
        return (logits + distilled) / 2

    def embed(
        self, images: Float[Array, "batch height width channels"], *, train: bool
    ) -> Float[Array, "batch tokens tokens_width"]:
        """The sequence that enters the first block."""
        x = self._apply_stem(images, train=train)
        batch, rows, columns, _ = x.shape
        num_patches = rows * columns
        x = x.reshape(batch, num_patches, self.width)
        if self.patch_norm:
            x = LayerNorm(self.norm_eps, self.dtype, name="patch_norm")(x)
        names = ("class_token", "distillation_token")[: self.num_prefix_tokens]
        prefix = [self._tokens(name, 1, batch) for name in names]
        x = jnp.concatenate([*prefix, x], axis=1) if prefix else x
        if self.position_embedding != "none":
            x += self._positions(rows, columns).astype(x.dtype)
        if self.num_registers:
            registers = self._tokens("registers", self.num_registers, batch)
            x = jnp.concatenate([x, registers], axis=1)
        return Dropout(
            self.embedding_dropout, deterministic=not train, name="embedding_dropout"
        )(x)

    def encode(
        self, tokens: Float[Array, "batch tokens width"], *, train: bool
    ) -> Float[Array, "batch tokens width"]:
        """The sequence after the last block and its norm."""
        settings = block_settings(self)
        for i, drop_path in enumerate(np.linspace(0, self.drop_path, self.depth)):
            tokens = EncoderBlock(settings, float(drop_path), name=f"block{i}")(
                tokens, train=train
            )
        if self.final_norm:
            norm = LayerNorm(self.norm_eps, self.dtype, name="final_norm")
            tokens = norm(tokens)
        return tokens

    def _apply_stem(
        self, images: Float[Array, "batch height width channels"], *, train: bool
    ) -> Float[Array, "batch rows columns tokens_width"]:
        shared = {"patch_size": self.patch_size, "dtype": self.dtype, "name": "stem"}
        if self.stem == "conv":
            stem = ConvStem(
                self.width,
                self.stem_channels,
                downsampling=self.stem_downsampling,
                norm=self.stem_norm,
                layer_init=self.layer_init,
                first_init=self.stem_init,
                **shared,
            )
            return stem(images, train=train)
        if self.stem == "shifted_patch":
            stem = ShiftedPatchStem(self.width, norm_eps=self.norm_eps, **shared)
            return stem(images)
        return PatchStem(self.width, **shared)(images)

    def _tokens(
        self, name: str, count: int, batch: int
    ) -> Float[Array, "batch count width"]:
        tokens = self.param(name, TOKEN_INITS[self.token_init], (1, count, self.width))
        return jnp.broadcast_to(tokens, (batch, count, self.width)).astype(self.dtype)

    def _positions(
        self, rows: int, columns: int
    ) -> Float[Array | np.ndarray, "1 tokens width"]:
        num_positions = self.num_prefix_tokens + rows * columns
        if self.position_embedding == "learned":
            init = TOKEN_INITS[self.token_init]
            return self.param("positions", init, (1, num_positions, self.width))
        if self.position_embedding == "sinusoidal_1d":
            return sinusoidal_1d(num_positions, self.width)[None]
        grid = sinusoidal_2d(rows, columns, self.width)
        return np.pad(grid, ((self.num_prefix_tokens, 0), (0, 0)))[None]
