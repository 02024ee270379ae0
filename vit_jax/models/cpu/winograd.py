"""3x3 convolutions with a quarter of the multiplications.

Lavin and Gray, 2016, "Fast Algorithms for Convolutional Neural Networks", section 4,
F(4x4, 3x3): an output tile of 4x4 pixels is A^T [(G g G^T) * (B^T d B)] A for a kernel
g and the 6x6 pixels d under it. `*` multiplies the elements at 36 positions, so that
summing over channels is 36 matrix products, with 36 multiplications where the
definition has 144. The transforms of rows and columns are one product with the
Kronecker product of their matrices, which needs fewer passes over memory.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

TILE = 4
_WINDOW = TILE + 2  # Side of the window of pixels on which a tile depends.

# The points at which the transforms evaluate polynomials, besides infinity. The
# rounding error is 1 to 2 millionths of the result's standard deviation; it is twice as
# large with the paper's points 0, +-1 and +-2, and 0.3 millionths by the definition.
_POINTS = (0, 0.75, -0.75, 1.5, -1.5)


def _evaluation(num_coefficients: int) -> Float[np.ndarray, "window coefficients"]:
    """The matrix that evaluates a polynomial at `_POINTS` and at infinity."""
    powers = np.vander(_POINTS, num_coefficients, increasing=True)
    return np.vstack([powers, np.eye(num_coefficients)[-1]])


def _in_2d(matrix: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m*m n*n"]:
    return np.kron(matrix, matrix).astype(np.float32)


# The transpose of multiplying polynomials of 4 and of 3 coefficients by their values.
_FROM_PRODUCTS = _in_2d(_evaluation(TILE).T)  # A^T
_OF_KERNEL = _in_2d(_evaluation(3))  # G
_OF_IMAGE = _in_2d(np.linalg.inv(_evaluation(_WINDOW)).T)  # B^T


@jax.custom_vjp
def convolve(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "3 3 channels channels_out"],
) -> Float[Array, "batch height width channels_out"]:
    """Cross-correlation at stride 1 with one pixel of zero padding on each side.

    Height and width are multiples of `TILE`; all numbers are float32. There is no
    forward-mode derivative.
    """
    products = jnp.einsum("ptc,pco->pto", _image(x), _linear(_OF_KERNEL, kernel, 2))
    tiles = _linear(_FROM_PRODUCTS, products)
    batch, height, width, _ = x.shape
    tiles = tiles.reshape(TILE, TILE, batch, height // TILE, width // TILE, -1)
    return tiles.transpose(2, 3, 0, 4, 1, 5).reshape(batch, height, width, -1)


def _forward(x, kernel):
    # The barriers keep XLA from computing `x` and `gradient` anew for every reader.
    x = jax.lax.optimization_barrier(x)
    return convolve(x, kernel), (x, kernel)


def _backward(saved, gradient):
    x, kernel = saved
    gradient = jax.lax.optimization_barrier(gradient)
    x_gradient = convolve(gradient, kernel[::-1, ::-1].swapaxes(2, 3))
    of_products = _linear(_FROM_PRODUCTS.T, _space_to_depth(gradient), 2)
    of_products = of_products.reshape(_WINDOW**2, -1, gradient.shape[-1])
    products = jnp.einsum("ptc,pto->pco", _image(x), of_products)
    return x_gradient, _linear(_OF_KERNEL.T, products).reshape(kernel.shape)


convolve.defvjp(_forward, _backward)


def _image(
    x: Float[Array, "batch height width channels"],
) -> Float[Array, "positions tiles channels"]:
    """B^T d B of every tile."""
    # Along each side, a window is a tile and half of the next one.
    x = jnp.pad(x, ((0, 0), (1, TILE - 1), (1, TILE - 1), (0, 0)))
    x = _space_to_depth(x)
    more = _WINDOW - TILE
    x = jnp.concatenate([x[:, :, :, :-1], x[:more, :, :, 1:]], axis=0)
    x = jnp.concatenate([x[:, :, :, :, :-1], x[:, :more, :, :, 1:]], axis=1)
    windows = x.reshape(_WINDOW**2, -1, x.shape[-1])
    return _linear(_OF_IMAGE, windows)


def _space_to_depth(
    x: Float[Array, "batch height width channels"],
) -> Float[Array, "tile tile batch rows columns channels"]:
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // TILE, TILE, width // TILE, TILE, channels)
    return x.transpose(2, 4, 0, 1, 3, 5)


def _linear(
    matrix: Float[np.ndarray, "m n"], x: Float[Array, "..."], num_axes: int = 1
) -> Float[Array, "m ..."]:
    """The matrix times `x`, whose first `num_axes` axes together have length n."""
    rest = x.shape[num_axes:]
    return (matrix @ x.reshape(matrix.shape[1], -1)).reshape(-1, *rest)
