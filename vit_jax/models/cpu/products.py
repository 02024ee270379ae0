"""Matrix products in the form that is fastest on a CPU."""

import math
from typing import Any

import jax
from jax import lax
from jaxtyping import Array, Float


def flat_dot_general(
    x: Float[Array, "..."],
    kernel: Float[Array, "..."],
    dimension_numbers: lax.DotDimensionNumbers,
    **options: Any,
) -> Float[Array, "..."]:
    """`jax.lax.dot_general` of `nn.Dense` and `nn.DenseGeneral` as one matrix product.

    With separate axes for the batch and its tokens, XLA (JAX 0.10) would transpose all
    activations on a CPU to compute the kernel's gradient: a step of ViT-Tiny would take
    1.1 times as long (experiments/benchmarks).

    `dimension_numbers` contracts the last axes of `x`, [*kept, *channels_in], with the
    first ones of the kernel, [*channels_in, *channels_out].
    """
    (contracting, _), _ = dimension_numbers
    num_axes = len(contracting)
    kept = x.shape[: x.ndim - num_axes]
    length = math.prod(kernel.shape[:num_axes])
    product = jax.lax.dot_general(
        x.reshape(-1, length),
        kernel.reshape(length, -1),
        (((1,), (0,)), ((), ())),
        **options,
    )
    return product.reshape(*kept, *kernel.shape[num_axes:])
