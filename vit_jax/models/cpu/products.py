"""Matrix products in the form that XLA computes fastest."""

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
    """`jax.lax.dot_general` for `nn.Dense` and `nn.DenseGeneral`, of two matrices.

    Equal to it, for [*kept, *channels_in] and [*channels_in, *channels_out], which give
    [*kept, *channels_out]; a ValueError where other axes are contracted. With an axis
    for the batch and one for its tokens, XLA (JAX 0.10) would transpose all activations
    on a CPU before it multiplies them for the kernel's gradient: ViT-Tiny's step would
    take 1.1 times as long (experiments/benchmarks).
    """
    (contracting, of_kernel), batch = dimension_numbers
    num_axes = len(contracting)
    kept = x.shape[: x.ndim - num_axes]
    if (
        tuple(contracting) != tuple(range(x.ndim - num_axes, x.ndim))
        or tuple(of_kernel) != tuple(range(num_axes))
        or any(batch)
    ):
        raise ValueError(f"Not a dense layer's product: {dimension_numbers}")
    length = math.prod(kernel.shape[:num_axes])
    product = jax.lax.dot_general(
        x.reshape(-1, length),
        kernel.reshape(length, -1),
        (((1,), (0,)), ((), ())),
        **options,
    )
    return product.reshape(*kept, *kernel.shape[num_axes:])
