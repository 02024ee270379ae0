"""Convolutions in the form that is fastest on a CPU."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.models.cpu import products, winograd

# Number of examples whose gradient is one convolution: of 16, 32, 64 and 128 the
# fastest for ResNet-18.
_CHUNK_SIZE = 16

# Winograd's algorithm is faster from this number of input and output channels on: its
# transforms then take little time compared with its products.
_MIN_CHANNELS = 128


def on_cpu(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "rows columns channels_in channels_out"],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    **options: Any,
) -> Float[Array, "batch rows_out columns_out channels_out"]:
    """`jax.lax.conv_general_dilated`, without groups or dilation.

    It is one product where the kernel is a pixel, `winograd.convolve` where that
    applies and is faster, and otherwise `by_chunks`. A step of ResNet-18 then takes 0.7
    times as long (experiments/benchmarks). There is no forward-mode derivative.
    """
    if kernel.shape[:2] == (1, 1):
        rows, columns = window_strides
        numbers = (((3,), (0,)), ((), ()))
        return products.flat_dot_general(x[:, ::rows, ::columns], kernel[0, 0], numbers)
    if (
        kernel.shape[:2] == (3, 3)
        and (tuple(window_strides), tuple(padding)) == ((1, 1), ((1, 1), (1, 1)))
        and all(side % winograd.TILE == 0 for side in x.shape[1:3])
        and min(kernel.shape[2:]) >= _MIN_CHANNELS
        and x.dtype == jnp.float32
    ):
        return winograd.convolve(x, kernel)
    return by_chunks(x, kernel, window_strides, padding, **options)


def by_chunks(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "rows columns channels_in channels_out"],
    *arguments: Any,
    **options: Any,
) -> Float[Array, "batch rows_out columns_out channels_out"]:
    """`jax.lax.conv_general_dilated`, with the kernel's gradient summed over chunks.

    XLA (JAX 0.10) computes that gradient as one convolution whose window is the whole
    image and whose channels are the examples. It is slower the more examples there are:
    a step of ResNet-18 with batches of 128 would take a sixth longer
    (experiments/benchmarks). There is no forward-mode derivative.
    """

    def plain(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, *arguments, **options)

    @jax.custom_vjp
    def convolve(x, kernel):
        return plain(x, kernel)

    def forward(x, kernel):
        # Without this barrier and the one below, XLA would compute what precedes `x`
        # and what follows `gradient` anew for the transposed copies of every chunk.
        x = jax.lax.optimization_barrier(x)
        return plain(x, kernel), (x, kernel)

    def backward(saved, gradient):
        x, kernel = saved
        gradient = jax.lax.optimization_barrier(gradient)
        (x_gradient,) = jax.linear_transpose(lambda x: plain(x, kernel), x)(gradient)
        kernel_gradient = jnp.zeros(kernel.shape, jnp.float32)
        for i in range(0, len(x), _CHUNK_SIZE):
            chunk = slice(i, i + _CHUNK_SIZE)
            of_chunk = functools.partial(plain, x[chunk])
            (part,) = jax.linear_transpose(of_chunk, kernel)(gradient[chunk])
            kernel_gradient += part
        return x_gradient, kernel_gradient.astype(kernel.dtype)

    convolve.defvjp(forward, backward)
    return convolve(x, kernel)
