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
import numpy as np
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


def cosine_filters_init(others: Initializer) -> Initializer:
    """The initializer of a first convolution whose outputs hardly correlate.

    Its filters are cosine transforms (Ahmed et al., 1974) of a patch along its rows,
    its columns and its colours, the smoothest first, each with a norm of 1. Their
    negatives follow, because a ReLU keeps only what is positive, and then filters that
    `others` draws, if there are more channels than pairs.

    Neighbouring pixels and colours of a photograph are alike, so its patches vary along
    few directions, and their cosine transforms hardly correlate. A whitening of the
    patches, with which a network learns in fewer epochs (Jordan, 2024, "94% on CIFAR-10
    in 3.29 Seconds on a Single GPU"), removes all correlations, but has to be computed
    from the images. BatchNorm has to follow, which gives all filters one variance.
    """

    def init(
        key: PRNGKeyArray, shape: tuple[int, int, int, int], dtype: Any = jnp.float32
    ) -> Float[Array, "rows columns channels_in channels_out"]:
        filters = _cosine_filters(shape[:3])[..., : shape[3] // 2]
        rest = others(key, shape, dtype)[..., 2 * filters.shape[3] :]
        return jnp.concatenate([filters, -filters, rest], -1).astype(dtype)

    return init


def _cosine_filters(
    sizes: tuple[int, int, int],
) -> Float[np.ndarray, "rows columns channels filters"]:
    """All cosine transforms of a patch of these sizes, the smoothest first."""
    rows, columns, colours = np.indices(sizes)
    # Photographs vary less along the colours than along the lowest waves of brightness.
    roughness = rows**2 + columns**2 + np.where(colours > 0, 2 + colours / 2, 0)
    filters = np.einsum("iu,jv,ck->ijcuvk", *map(_cosines, sizes))
    order = np.argsort(roughness, axis=None, kind="stable")
    return filters.reshape(*sizes, -1)[..., order].astype(np.float32)


def _cosines(length: int) -> Float[np.ndarray, "length waves"]:
    """Orthonormal cosines of 0, 1/2, 1, ... periods: the discrete cosine transform."""
    positions = np.arange(length) + 0.5
    waves = np.cos(np.pi / length * np.outer(positions, np.arange(length)))
    return waves / np.linalg.norm(waves, axis=0)
