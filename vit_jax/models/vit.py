"""The Vision Transformer and its variants for small images."""

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float

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


class ViT(nn.Module):
    """Vision Transformer (Dosovitskiy et al., 2021, "An Image is Worth 16x16 Words").

    The order of the tokens is: class token if there is one, patches row by row,
    registers. Sows, in the collection "intermediates", "features" (float32
    [batch, width], what the head sees) and each block's attention weights.

    Attributes:
      num_classes: length of the logits.
      patch_size: distance of two tokens in pixels; divides the image.
      width, depth, num_heads, mlp_ratio: of the encoder.
      qkv_bias: whether queries, keys and values have a bias.
      position_embedding: "learned"; "sinusoidal_1d" over the class token and the
        patches in order; "sinusoidal_2d" over the patches' grid, zero for the class
        token; or "none".
      layer_init: of all layers: "normal" or "pytorch", see `initializers`.
      token_init: of the class token, registers and learned positions: "normal", with
        standard deviation 0.02, "standard_normal", with 1, or "zeros".
      pooling: what the head sees: the "cls" token, the "mean" of the patches, or a
        "sequence" pooling, weighted by a learned softmax (Hassani et al., 2021).
      norm_position: "pre" or "post", see `EncoderBlock`.
      final_norm: LayerNorm behind the last block.
      patch_norm: LayerNorm on the embedded patches.
      dropout: after the attention's projection and both MLP layers.
      embedding_dropout: on the sequence that enters the first block.
      attention_dropout: on attention weights.
      mlp_output_dropout: once more on each MLP sublayer's output.
      drop_path: stochastic depth of the last block; rises linearly from 0 at the first.
      layer_scale: initial factor of the residual branches; 0: none.
      qk_norm: LayerNorm on queries and keys.
      num_registers: extra tokens without position that nothing reads out (Darcet et
        al., 2024, "Vision Transformers Need Registers").
      stem: "patch", "conv" or "shifted_patch", see `embeddings`.
      stem_channels: of the conv stem's layers before the last, which has `width`.
      stem_downsampling: of the conv stem: "max_pool" or "stride".
      local_attention: see `SelfAttention`.
      mimetic_init: attention kernels start as `attention.mimetic_kernels`.
      attention_implementation: "plain", "xla" or "cudnn", see `attention.attend`.
      activation: of the MLP: "gelu" or "relu".
      norm_eps: added to every LayerNorm's variance.
      dtype: of the computation. Parameters, softmax, the statistics of LayerNorm,
        features and logits are float32.
    """

    num_classes: int
    patch_size: int = 4
    width: int = 192
    depth: int = 12
    num_heads: int = 3
    mlp_ratio: float = 4.0
    qkv_bias: bool = True
    position_embedding: str = "learned"
    layer_init: str = "normal"
    token_init: str = "normal"
    pooling: str = "cls"
    norm_position: str = "pre"
    final_norm: bool = True
    patch_norm: bool = False
    dropout: float = 0.0
    embedding_dropout: float = 0.0
    attention_dropout: float = 0.0
    mlp_output_dropout: float = 0.0
    drop_path: float = 0.0
    layer_scale: float = 0.0
    qk_norm: bool = False
    num_registers: int = 0
    stem: str = "patch"
    stem_channels: tuple[int, ...] = ()
    stem_downsampling: str = "max_pool"
    local_attention: bool = False
    mimetic_init: bool = False
    attention_implementation: str = "plain"
    activation: str = "gelu"
    norm_eps: float = 1e-6
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self,
        images: Float[Array, "batch height width channels"],
        *,
        train: bool = False,
    ) -> Float[Array, "batch classes"]:
        x = self._make_stem()(images)
        batch, rows, columns, _ = x.shape
        num_patches = rows * columns
        x = x.reshape(batch, num_patches, self.width)
        if self.patch_norm:
            x = nn.LayerNorm(self.norm_eps, self.dtype, name="patch_norm")(x)
        if self.pooling == "cls":
            x = jnp.concatenate([self._tokens("class_token", 1, batch), x], axis=1)
        if self.position_embedding != "none":
            x += self._positions(rows, columns).astype(x.dtype)
        if self.num_registers:
            registers = self._tokens("registers", self.num_registers, batch)
            x = jnp.concatenate([x, registers], axis=1)
        x = Dropout(
            self.embedding_dropout, deterministic=not train, name="embedding_dropout"
        )(x)

        for i, drop_path in enumerate(np.linspace(0, self.drop_path, self.depth)):
            x = self._make_block(i, float(drop_path))(x, train=train)
        if self.final_norm:
            x = nn.LayerNorm(self.norm_eps, self.dtype, name="final_norm")(x)

        x = x.astype(jnp.float32)
        if self.pooling == "cls":
            features = x[:, 0]
        elif self.pooling == "mean":
            features = x[:, :num_patches].mean(axis=1)
        else:
            x = x[:, :num_patches]
            # Without the bias of the authors' code: it would cancel in the softmax.
            kernel_init = dense_inits(self.layer_init, self.width)["kernel_init"]
            scores = nn.Dense(1, use_bias=False, kernel_init=kernel_init, name="pool")
            features = jnp.einsum("bt,btw->bw", nn.softmax(scores(x)[..., 0]), x)
        self.sow("intermediates", "features", features)
        inits = dense_inits(self.layer_init, self.width)
        return nn.Dense(self.num_classes, name="head", **inits)(features)

    def _make_stem(self) -> nn.Module:
        shared = {"patch_size": self.patch_size, "dtype": self.dtype, "name": "stem"}
        if self.stem == "conv":
            channels = (*self.stem_channels, self.width)
            return ConvStem(
                channels,
                downsampling=self.stem_downsampling,
                layer_init=self.layer_init,
                **shared,
            )
        if self.stem == "shifted_patch":
            return ShiftedPatchStem(self.width, norm_eps=self.norm_eps, **shared)
        return PatchStem(self.width, **shared)

    def _make_block(self, index: int, drop_path: float) -> nn.Module:
        return EncoderBlock(
            self.num_heads,
            mlp_ratio=self.mlp_ratio,
            qkv_bias=self.qkv_bias,
            norm_position=self.norm_position,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            mlp_output_dropout=self.mlp_output_dropout,
            drop_path=drop_path,
            layer_scale=self.layer_scale,
            qk_norm=self.qk_norm,
            local_attention=self.local_attention,
            layer_init=self.layer_init,
            mimetic_init=self.mimetic_init,
            attention_implementation=self.attention_implementation,
            activation=self.activation,
            norm_eps=self.norm_eps,
            dtype=self.dtype,
            name=f"block{index}",
        )

    def _tokens(
        self, name: str, count: int, batch: int
    ) -> Float[Array, "batch count width"]:
        tokens = self.param(name, TOKEN_INITS[self.token_init], (1, count, self.width))
        return jnp.broadcast_to(tokens, (batch, count, self.width)).astype(self.dtype)

    def _positions(
        self, rows: int, columns: int
    ) -> Float[Array | np.ndarray, "1 tokens width"]:
        num_class_tokens = int(self.pooling == "cls")
        num_positions = num_class_tokens + rows * columns
        if self.position_embedding == "learned":
            init = TOKEN_INITS[self.token_init]
            return self.param("positions", init, (1, num_positions, self.width))
        if self.position_embedding == "sinusoidal_1d":
            return sinusoidal_1d(num_positions, self.width)[None]
        grid = sinusoidal_2d(rows, columns, self.width)
        return np.pad(grid, ((num_class_tokens, 0), (0, 0)))[None]
