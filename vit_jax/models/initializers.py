"""Initialisation of a ViT's parameters: the named schemes.

"normal" is the scheme of timm and of most ViT code in PyTorch: dense kernels from
N(0, 0.02), dense biases zero, the patch projection by PyTorch's default. Their
`trunc_normal_(std=0.02)` cuts at -2 and 2, a hundred standard deviations away, so that
nothing is cut.

"pytorch" is the default of PyTorch 2: `nn.Linear` and `nn.Conv2d` draw kernel and
bias uniformly up to 1 / sqrt(fan_in) (Kaiming-uniform with a = sqrt(5));
`nn.MultiheadAttention` draws the joint projection of queries, keys and values by
Xavier-uniform and starts its biases at zero, that of the output included.
"""

from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from jax.nn.initializers import Initializer
from jaxtyping import Array, Float, PRNGKeyArray

_NORMAL = nn.initializers.normal(0.02)

# For the class token, registers and learned positions.
TOKEN_INITS: dict[str, Initializer] = {
    "normal": _NORMAL,
    "standard_normal": nn.initializers.normal(1.0),
    "zeros": nn.initializers.zeros,
}

# Uniform up to 1 / sqrt(fan_in), which has a variance of 1 / (3 fan_in).
UNIFORM_KERNEL = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


def projection_inits(fan_in: int) -> dict[str, Initializer]:
    """`kernel_init` and `bias_init` of PyTorch's `nn.Linear` and `nn.Conv2d`.

    Args:
      fan_in: number of inputs of one output; for a convolution, the pixels of the
        kernel times the input channels.
    """
    bound = fan_in**-0.5

    def bias_init(
        key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any = jnp.float32
    ) -> Float[Array, "..."]:
        return nn.initializers.uniform(2 * bound)(key, shape, dtype) - bound

    return {"kernel_init": UNIFORM_KERNEL, "bias_init": bias_init}


def dense_inits(init: str, fan_in: int) -> dict[str, Initializer]:
    """`kernel_init` and `bias_init` of a dense layer, "normal" or "pytorch"."""
    if init == "pytorch":
        return projection_inits(fan_in)
    return {"kernel_init": _NORMAL, "bias_init": nn.initializers.zeros}


def attention_kernel_inits(init: str) -> tuple[Initializer, Initializer]:
    """The initializers of the joint query, key and value kernel and of the output's.

    The biases start at zero in every scheme.
    """
    if init == "pytorch":
        return nn.initializers.xavier_uniform(), UNIFORM_KERNEL
    return _NORMAL, _NORMAL
