"""Multi-head self-attention and its mimetic initialisation."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from vit_jax.models import backend
from vit_jax.models.block_settings import BlockSettings
from vit_jax.models.dropout import Dropout
from vit_jax.models.initializers import attention_kernel_inits
from vit_jax.models.norms import AffineProduct, LayerNorm


class SelfAttention(nn.Module):
    """Scaled dot-product attention of every token to every token, with its projections.

    Sows the weights after the softmax, before their dropout, as "attention" in the
    collection "intermediates": float32 [batch, heads, query token, key token]. Adds
    "attention" of the collection "perturbations", if it is given, to the same weights,
    so that a derivative by them can be taken. In both cases attention is computed by
    the "plain" implementation, the only one that has the weights.
    """

    settings: BlockSettings

    @nn.compact
    def __call__(
        self,
        tokens: Float[Array, "batch tokens width"],
        dot_general: Callable[..., Array] | None = None,
        *,
        train: bool,
    ) -> Float[Array, "batch tokens width"]:
        """The mixed tokens; `dot_general` is that of queries, keys and values."""
        settings, width = self.settings, tokens.shape[-1]
        head_width = width // settings.num_heads
        qkv_init, out_init = self._kernel_inits(width)
        implementation = backend.attention_implementation(
            settings.attention_implementation, settings.dtype, head_width
        )
        needs_weights = self.is_mutable_collection(
            "intermediates"
        ) or self.has_variable("perturbations", "attention")
        is_plain = implementation == "plain" or needs_weights
        out_dot_general = backend.dot_general()

        dense = functools.partial(nn.DenseGeneral, dtype=settings.dtype)
        if self._projects_apart(tokens, is_plain):
            query, key, value, shift = self._project_apart(tokens, dot_general)
            out_dot_general = AffineProduct(None, shift)
        else:
            qkv = dense(
                (3, settings.num_heads, head_width),
                use_bias=settings.qkv_bias,
                kernel_init=qkv_init,
                dot_general=dot_general or backend.dot_general(),
                name="qkv",
            )(tokens)
            query, key, value = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        if settings.qk_norm:
            norm = functools.partial(
                LayerNorm, settings.norm_eps, settings.dtype, use_bias=False
            )
            query, key = norm(name="query_norm")(query), norm(name="key_norm")(key)

        # It is created for every implementation, because Flax numbers modules: the
        # dropout at the end then has the same name, and so the same random numbers.
        drop_weights = Dropout(settings.attention_dropout, deterministic=not train)
        if is_plain:
            is_short = query.dtype.itemsize == 2 and not needs_weights
            mixed = self._attend_plainly(query, key, value, drop_weights, is_short)
        else:
            # On a CPU (JAX 0.10.2) "xla" took 28 to 37% longer than "plain" at 65
            # tokens; `experiments.benchmark --attention` measures them on any device.
            mixed = attend_to_even_number(query, key, value, implementation)
        mixed = dense(
            width,
            axis=(-2, -1),
            kernel_init=out_init,
            dot_general=out_dot_general,
            name="out",
        )(mixed)[:, : tokens.shape[1]]
        mixed = backend.with_stored_gradient(mixed)
        return Dropout(settings.dropout, deterministic=not train)(mixed)

    def _projects_apart(self, tokens, is_plain):
        """Whether `_project_apart` computes the queries, keys and values.

        An odd number of tokens is padded, and with three arrays this takes more copies
        than with one. With a norm of the keys, their bias would not drop out of the
        softmax.
        """
        is_suited = tokens.shape[1] % 2 == 0 and not self.settings.qk_norm
        is_used = backend.projects_apart() and not self.is_initializing()
        return is_suited and is_used and not is_plain

    def _project_apart(self, tokens, dot_general):
        """Queries, keys and values by three products, which fused attention reads.

        A single product has to be copied into three arrays, and the gradients of these
        into one. The biases would cost as much again, because a kernel of its own adds
        each of them, but two of them are not needed for each token. That of the keys
        adds the same number to all logits of a query, which the softmax takes out. That
        of the values adds itself to each output, since the weights of a query sum to 1.

        Returns:
          Queries, keys and values, and what to add to each output of attention.
        """
        params = self.get_variable("params", "qkv")
        kernel = params["kernel"].astype(self.settings.dtype)
        shift = params.get("bias", jnp.zeros(kernel.shape[1:]))
        if isinstance(dot_general, AffineProduct):
            shift += dot_general.shifted(kernel)
            kernel = dot_general.scaled(kernel)
        tokens = tokens.astype(kernel.dtype)
        query, key, value = (
            jnp.einsum("btw,whd->bthd", tokens, kernel[:, i]) for i in range(3)
        )
        return query + shift[None, None, 0].astype(query.dtype), key, value, shift[2]

    def _attend_plainly(self, query, key, value, drop_weights, is_short):
        settings = self.settings
        # The heads come before the tokens here, once. Otherwise XLA (JAX 0.10) would
        # transpose for each product on a CPU, forward and backward.
        query, key, value = (x.swapaxes(1, 2) for x in (query, key, value))
        num_tokens, head_width = query.shape[2:]
        if is_short and not settings.local_attention:
            keep, scale = drop_weights.mask((*query.shape[:3], num_tokens))
            mixed = attend_in_16_bits(query, key, value, keep, scale)
            return mixed.swapaxes(1, 2)
        # Logits and softmax are float32 whatever the dtype of the products' operands.
        logits = jnp.einsum(
            "bhqd,bhkd->bhqk", query, key, preferred_element_type=jnp.float32
        )
        if settings.local_attention:
            factor = self.param(
                "inverse_temperature",
                nn.initializers.constant(head_width**-0.5),
                (settings.num_heads,),
            )
            itself = jnp.eye(num_tokens, dtype=bool)[None, None]
            # Not -inf: a single token has no other to attend to and would become NaN.
            lowest = jnp.finfo(jnp.float32).min
            logits = jnp.where(itself, lowest, logits * factor[None, :, None, None])
        else:
            logits *= head_width**-0.5
        weights = nn.softmax(logits)
        self.sow("intermediates", "attention", weights)

        if self.has_variable("perturbations", "attention"):
            weights = self.perturb("attention", weights)
        weights = drop_weights(weights).astype(settings.dtype)
        mixed = jnp.einsum("bhqk,bhkd->bhqd", weights, value)
        return mixed.swapaxes(1, 2)

    def _kernel_inits(self, width: int):
        settings = self.settings
        if not settings.mimetic_init or not self.is_initializing():
            return attention_kernel_inits(settings.layer_init)
        # One draw for both kernels: only their product is prescribed.
        qkv, out = mimetic_kernels(self.make_rng("params"), width, settings.num_heads)
        return lambda *_: qkv, lambda *_: out


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def attend_in_16_bits(
    query: Float[Array, "batch heads tokens head"],
    key: Float[Array, "batch heads tokens head"],
    value: Float[Array, "batch heads tokens head"],
    keep: Bool[Array, "batch heads tokens tokens"] | None,
    scale: float,
) -> Float[Array, "batch heads tokens head"]:
    """Scaled dot-product attention that moves few bytes, for numbers of 16 bits.

    Logits and softmax are float32. Of what has a number for each pair of tokens, only
    the weights are kept for the backward pass, in 16 bits, and the derivatives of the
    logits have 16 bits, too. JAX would derive an array of float32 for each.

    Args:
      keep: which weights are kept by dropout; None: all.
      scale: the factor of those.
    """
    return _attend_forward(query, key, value, keep, scale)[0]


def _attend_forward(query, key, value, keep, scale):
    logits = jnp.einsum(
        "bhqd,bhkd->bhqk", query, key, preferred_element_type=jnp.float32
    )
    weights = nn.softmax(logits * query.shape[-1] ** -0.5).astype(query.dtype)
    # One array says what the weights are and, by the sign, which of them are dropped.
    signed = weights if keep is None else jnp.where(keep, weights, -weights)
    mixed = jnp.einsum("bhqk,bhkd->bhqd", jnp.maximum(signed, 0), value) * scale
    return mixed, (query, key, value, signed)


def _attend_backward(scale, kept, slope):
    query, key, value, signed = kept
    wide = functools.partial(jnp.asarray, dtype=jnp.float32)
    by_value = jnp.einsum("bhqk,bhqd->bhkd", jnp.maximum(signed, 0), slope) * scale
    by_weights = jnp.einsum("bhqd,bhkd->bhqk", slope, value)
    by_weights = jnp.where(signed > 0, wide(by_weights) * scale, 0)
    weights = wide(jnp.abs(signed))
    # The product of `slope` and the output is the same sum, but its rounding would not
    # cancel against that of `by_weights`, where one weight is nearly 1.
    mean = jnp.sum(weights * by_weights, axis=-1, keepdims=True)
    by_logits = weights * (by_weights - mean) * query.shape[-1] ** -0.5
    by_logits = by_logits.astype(query.dtype)
    by_query = jnp.einsum("bhqk,bhkd->bhqd", by_logits, key)
    by_key = jnp.einsum("bhqk,bhqd->bhkd", by_logits, query)
    return by_query, by_key, by_value, None


attend_in_16_bits.defvjp(_attend_forward, _attend_backward)


def attend_to_even_number(
    query: Float[Array, "batch tokens heads head"],
    key: Float[Array, "batch tokens heads head"],
    value: Float[Array, "batch tokens heads head"],
    implementation: str,
) -> Float[Array, "batch even_tokens heads head"]:
    """`jax.nn.dot_product_attention`, of which an odd number of tokens is padded.

    JAX (0.11) refuses to differentiate NVIDIA's fused kernel for an odd number. The
    token that is added is masked out: no other token attends to it.

    Returns:
      The mixed tokens, and where a token was added, its output as the last one. It is
      of no use. The caller cuts it off behind the next product, where this costs no
      copy.
    """
    attend = functools.partial(
        jax.nn.dot_product_attention, implementation=implementation
    )
    batch, num_tokens = query.shape[:2]
    if num_tokens % 2 == 0:
        return attend(query, key, value)
    padding = ((0, 0), (0, 1), (0, 0), (0, 0))
    padded = (jnp.pad(x, padding) for x in (query, key, value))
    lengths = jnp.full(batch, num_tokens, jnp.int32)
    return attend(*padded, query_seq_lengths=lengths, key_value_seq_lengths=lengths)


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

    value = value.reshape(width, num_heads, head_width)
    qkv = jnp.stack([query.swapaxes(0, 1), key_.swapaxes(0, 1), value], axis=1)
    return qkv, out.T.reshape(num_heads, head_width, width)


def _factorise(
    product: Float[Array, "*heads n n"], rank: int
) -> tuple[Float[Array, "*heads n rank"], Float[Array, "*heads n rank"]]:
    """a and b, where a @ b.T is the best approximation of `product` of that rank."""
    left, values, right = jnp.linalg.svd(product, full_matrices=False)
    root = jnp.sqrt(values[..., None, :rank])
    return left[..., :rank] * root, right.swapaxes(-1, -2)[..., :rank] * root
