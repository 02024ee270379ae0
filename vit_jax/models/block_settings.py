"""The settings of a Transformer block, written once for the ViT and its parts."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jax.typing import DTypeLike


# Not frozen: a linen module, which is a dataclass that is not, inherits these fields.
@dataclasses.dataclass(kw_only=True, unsafe_hash=True)
class BlockSettings:
    """The settings that all blocks of a ViT share.

    `config.model_settings` says what each of them does and may be. Beyond that:

    Attributes:
      num_heads: divides the width of the tokens.
      qk_norm: LayerNorm without bias on each head's queries and keys (Dehghani et al.,
        2023, "Scaling Vision Transformers to 22 Billion Parameters").
      local_attention: locality self-attention (Lee et al., 2021, "Vision Transformer
        for Small-Size Datasets"): no token attends to itself, and each head learns the
        factor of its logits, which starts at the usual head_width**-0.5.
      attention_implementation: anything but "plain" excludes `local_attention` and
        `attention_dropout`.
      norm_position: "pre", x + f(norm(x)) (Dosovitskiy et al., 2021), or "post",
        norm(x + f(x)) (Vaswani et al., 2017, and PyTorch's default).
      layer_scale: initial value of a learned factor of each channel of a sublayer's
        output (Touvron et al., 2021, "Going deeper with Image Transformers"); 0: no
        factor.
      layer_init: see `initializers`.
      mimetic_init: whether the attention kernels start as `attention.mimetic_kernels`
        instead.
      dtype: of the computation. Parameters, softmax and the statistics of LayerNorm
        are float32.
    """

    num_heads: int = 3
    mlp_ratio: float = 4.0
    qkv_bias: bool = True
    qk_norm: bool = False
    local_attention: bool = False
    attention_implementation: str = "plain"
    norm_position: str = "pre"
    activation: str = "gelu"
    layer_scale: float = 0.0
    dropout: float = 0.0
    attention_dropout: float = 0.0
    mlp_output_dropout: float = 0.0
    layer_init: str = "normal"
    mimetic_init: bool = False
    norm_eps: float = 1e-6
    dtype: DTypeLike = jnp.float32


def block_settings(owner: Any) -> BlockSettings:
    """The fields of `BlockSettings` that `owner`, a ViT for example, has inherited."""
    names = [field.name for field in dataclasses.fields(BlockSettings)]
    return BlockSettings(**{name: getattr(owner, name) for name in names})
