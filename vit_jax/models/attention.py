"""Multi-head self-attention and its mimetic initialisation."""

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PRNGKeyArray

from vit_jax.models.cpu.products import flat_dot_general
from vit_jax.models.dropout import Dropout
from vit_jax.models.initializers import attention_kernel_inits


class SelfAttention(nn.Module):
    """Scaled dot-product attention of every token to every token, with its projections.

    Sows the weights after the softmax, before their dropout, as "attention" in the
    collection "intermediates": float32 [batch, heads, query token, key token].

    Attributes:
      num_heads: divides the width of the tokens.
      qkv_bias: whether queries, keys and values have a bias.
      qk_norm: LayerNorm without bias on each head's queries and keys (Dehghani et al.,
        2023, "Scaling Vision Transformers to 22 Billion Parameters").
      local_attention: locality self-attention (Lee et al., 2021, "Vision Transformer
        for Small-Size Datasets"): no token attends to itself, and each head learns the
        factor of its logits, which starts at the usual head_width**-0.5.
      attention_dropout: chance of dropping a weight, in training.
      dropout: chance of dropping an output element, in training.
      layer_init: of the kernels, see `initializers`.
      mimetic_init: whether `mimetic_kernels` take the place of `layer_init`.
      implementation: of the product of queries, keys and values, see `attend`. Anything
        but "plain" excludes local_attention and attention_dropout, and gives way to it
        where the weights are asked for.
    """

    num_heads: int
    qkv_bias: bool = True
    qk_norm: bool = False
    local_attention: bool = False
    attention_dropout: float = 0.0
    dropout: float = 0.0
    layer_init: str = "normal"
    mimetic_init: bool = False
    implementation: str = "plain"
    norm_eps: float = 1e-6
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self, tokens: Float[Array, "batch tokens width"], *, train: bool
    ) -> Float[Array, "batch tokens width"]:
        width = tokens.shape[-1]
        head_width = width // self.num_heads
        qkv_init, out_init = self._kernel_inits(width)

        dense = functools.partial(
            nn.DenseGeneral, dtype=self.dtype, dot_general=flat_dot_general
        )
        qkv = dense(
            (3, self.num_heads, head_width),
            use_bias=self.qkv_bias,
            kernel_init=qkv_init,
            name="qkv",
        )(tokens)
        query, key, value = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        if self.qk_norm:
            norm = functools.partial(
                nn.LayerNorm, self.norm_eps, self.dtype, use_bias=False
            )
            query, key = norm(name="query_norm")(query), norm(name="key_norm")(key)

        asked = self.is_mutable_collection("intermediates")
        if self.implementation == "plain" or asked:
            mixed = self._attend_plainly(query, key, value, train)
        else:
            mixed = attend(query, key, value, implementation=self.implementation)
        mixed = dense(width, axis=(-2, -1), kernel_init=out_init, name="out")(mixed)
        return Dropout(self.dropout, deterministic=not train)(mixed)

    def _attend_plainly(self, query, key, value, train):
        # Once, or XLA (JAX 0.10) puts the heads before the tokens for each product on a
        # CPU, forward and backward.
        query, key, value = (x.swapaxes(1, 2) for x in (query, key, value))
        num_tokens, head_width = query.shape[2:]
        # Logits and softmax are float32 whatever the dtype of the products' operands.
        logits = jnp.einsum(
            "bhqd,bhkd->bhqk", query, key, preferred_element_type=jnp.float32
        )
        if self.local_attention:
            factor = self.param(
                "inverse_temperature",
                nn.initializers.constant(head_width**-0.5),
                (self.num_heads,),
            )
            itself = jnp.eye(num_tokens, dtype=bool)[None, None]
            # Not -inf: a lone token has nothing else to attend to and would become NaN.
            lowest = jnp.finfo(jnp.float32).min
            logits = jnp.where(itself, lowest, logits * factor[None, :, None, None])
        else:
            logits *= head_width**-0.5
        weights = nn.softmax(logits)
        self.sow("intermediates", "attention", weights)

        weights = Dropout(self.attention_dropout, deterministic=not train)(weights)
        mixed = jnp.einsum("bhqk,bhkd->bhqd", weights.astype(self.dtype), value)
        return mixed.swapaxes(1, 2)

    def _kernel_inits(self, width: int):
        if not self.mimetic_init or not self.is_initializing():
            return attention_kernel_inits(self.layer_init)
        # One draw for both kernels: only their product is prescribed.
        qkv, out = mimetic_kernels(self.make_rng("params"), width, self.num_heads)
        return lambda *_: qkv, lambda *_: out


def attend(
    query: Float[Array, "batch tokens heads head"],
    key: Float[Array, "batch tokens heads head"],
    value: Float[Array, "batch tokens heads head"],
    *,
    implementation: str,
) -> Float[Array, "batch tokens heads head"]:
    """Scaled dot-product attention by `jax.nn.dot_product_attention`.

    The default of `SelfAttention` is its own, "plain" one: on a CPU (JAX 0.10.2) "xla"
    took 28 to 37% longer at 65 tokens, forward and backward. On a GPU none has been
    measured yet: `python -m experiments.benchmark --attention` does.

    Args:
      implementation: "xla", or "cudnn", NVIDIA's fused kernel, for 16-bit numbers on a
        GPU; anywhere else that is "xla", too, so that a run can be taken elsewhere.
    """
    fused = jax.default_backend() == "gpu" and query.dtype.itemsize == 2
    if implementation == "cudnn" and not fused:
        implementation = "xla"
    return jax.nn.dot_product_attention(
        query, key, value, implementation=implementation
    )


def mimetic_kernels(
    key: PRNGKeyArray, width: int, num_heads: int
) -> tuple[Float[Array, "width 3 heads head"], Float[Array, "heads head width"]]:
    """Kernels whose products look like those of a trained ViT.

    Trockman and Kolter, 2023, "Mimetic Initialization of Self-Attention Layers": with
    entries of Z drawn from N(0, 1 / width), W_query W_key^T of each head is the best
    approximation of 0.7 I + 0.7 Z of its rank, and W_value W_out, over all heads, is
    -0.4 I + 0.4 Z. A singular value decomposition splits each product evenly.

    Returns:
      The kernel of queries, keys and values, and that of the output projection.
    """
    query_key_rng, value_rng = jax.random.split(key)
    head_width = width // num_heads
    identity = jnp.eye(width)

    noise = jax.random.normal(query_key_rng, (num_heads, width, width)) / width**0.5
    query, key_ = _factorise(0.7 * identity[None] + 0.7 * noise, head_width)
    noise = jax.random.normal(value_rng, (width, width)) / width**0.5
    value, out = _factorise(-0.4 * identity + 0.4 * noise, width)

    qkv = jnp.stack(
        [
            query.swapaxes(0, 1),
            key_.swapaxes(0, 1),
            value.reshape(width, num_heads, head_width),
        ],
        axis=1,
    )
    return qkv, out.T.reshape(num_heads, head_width, width)


def _factorise(
    product: Float[Array, "*heads n n"], rank: int
) -> tuple[Float[Array, "*heads n rank"], Float[Array, "*heads n rank"]]:
    """a and b with a @ b.T the best approximation of `product` of that rank."""
    left, values, right = jnp.linalg.svd(product, full_matrices=False)
    root = jnp.sqrt(values[..., None, :rank])
    return left[..., :rank] * root, right.swapaxes(-1, -2)[..., :rank] * root
