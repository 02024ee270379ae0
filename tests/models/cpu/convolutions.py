"""Convolutions by hand, and comparisons of their gradients."""

import jax
import jax.numpy as jnp
import numpy as np


def numpy_conv(x, kernel, stride):
    """Cross-correlation of [b, h, w, c] with zero padding of half the kernel."""
    side = kernel.shape[0]
    pad = side // 2
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (side, side), axis=(1, 2))
    windows = windows[:, ::stride, ::stride]  # b, rows, columns, c, ky, kx
    return np.tensordot(windows, kernel, axes=([4, 5, 3], [0, 1, 2]))


def assert_gradients_agree(convolve, x, kernel, stride, tolerance):
    """Asserts that values and gradients are those of `lax.conv_general_dilated`.

    All arrays have a first axis of two networks, as in a sweep.
    """
    sides = [side // stride for side in x.shape[2:4]]
    shape = (*x.shape[:2], *sides, kernel.shape[-1])
    weights = jax.random.normal(jax.random.key(2), shape, x.dtype)
    pad = kernel.shape[1] // 2

    def value_and_gradients(convolve):
        def loss(x, kernel, weights):
            y = convolve(
                x, kernel, (stride, stride), [(pad, pad), (pad, pad)],
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )  # fmt: skip
            return (weights * y**2).sum(dtype=jnp.float32)

        run = jax.jit(jax.vmap(jax.value_and_grad(loss, argnums=(0, 1))))
        return run(x, kernel, weights)

    def check(ours, expected):
        assert ours.dtype == expected.dtype
        ours, expected = (np.asarray(v, np.float64) for v in (ours, expected))
        atol = tolerance * np.abs(expected).max()
        np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=atol)

    jax.tree.map(
        check,
        value_and_gradients(convolve),
        value_and_gradients(jax.lax.conv_general_dilated),
    )
