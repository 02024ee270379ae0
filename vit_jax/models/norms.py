"""LayerNorm, and BatchNorm that can be frozen, with exact statistics."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from vit_jax.models import backend

# By default Flax computes a variance as the mean of squares minus the square of the
# mean. In float32 that loses the digits in which the two agree: nearly all of them on
# an even image, whose mean is large against its deviation.
LayerNorm = functools.partial(nn.LayerNorm, use_fast_variance=False)


class AffineProduct:
    """The `dot_general` of a dense layer that reads x s + b, computed from x alone.

    (x s + b) W = x (s W) + b W. The gradients of s and b then follow from that of W,
    which is small, instead of from two sums over all tokens, for which XLA would store
    an array of float32.
    """

    def __init__(
        self, scale: Float[Array, "*axes"] | None, shift: Float[Array, "*axes"]
    ):
        """`scale` is s, or None for 1, and `shift` is b; both have the axes of x that
        are contracted with the kernel."""
        self.scale, self.shift = scale, shift

    def __call__(self, x: Array, kernel: Array, *args: Any, **kwargs: Any) -> Array:
        product = jax.lax.dot_general(x, self.scaled(kernel), *args, **kwargs)
        added = self.shifted(kernel).astype(product.dtype)
        return product + jnp.expand_dims(added, range(x.ndim - self.shift.ndim))

    def scaled(
        self, kernel: Float[Array, "*axes_and_outputs"]
    ) -> Float[Array, "*axes_and_outputs"]:
        """Returns s W, which x is multiplied by."""
        if self.scale is None:
            return kernel
        return (_along(self.scale, kernel) * kernel).astype(kernel.dtype)

    def shifted(
        self, kernel: Float[Array, "*axes_and_outputs"]
    ) -> Float[Array, "*outputs"]:
        """Returns b W, which is added to each product."""
        return jnp.sum(_along(self.shift, kernel) * kernel, axis=range(self.shift.ndim))


def _along(x: Array, kernel: Array) -> Array:
    """`x` with an axis of length 1 for each output of the kernel."""
    return x.reshape(*x.shape, *(kernel.ndim - x.ndim) * (1,))


def norm_before_dense(
    x: Float[Array, "... width"], epsilon: float, dtype: DTypeLike, name: str
) -> tuple[Float[Array, "... width"], Callable[..., Array] | None]:
    """What a dense layer should read and multiply with, so that it follows a LayerNorm.

    Where `backend.folds_norms` says so, the dense layer's product takes over the scale
    and the bias of the norm as an `AffineProduct`. It is called in a module's compact
    method.

    Args:
      name: of the norm, at which its "scale" and "bias" are in any case.

    Returns:
      The tokens to read, and the `dot_general` of the dense layer.
    """
    if not backend.folds_norms():
        return LayerNorm(epsilon, dtype, name=name)(x), backend.dot_general()
    normalised = LayerNorm(epsilon, dtype, use_scale=False, use_bias=False)(x)
    return normalised, AffineProduct(*_ScaleAndBias(name=name)(x.shape[-1]))


class _ScaleAndBias(nn.Module):
    """The parameters of a LayerNorm, without its computation."""

    @nn.compact
    def __call__(self, width: int) -> tuple[Float[Array, " width"], ...]:
        return (
            self.param("scale", nn.initializers.ones, (width,)),
            self.param("bias", nn.initializers.zeros, (width,)),
        )


class BatchNorm(nn.BatchNorm):
    """Batch normalisation (Ioffe and Szegedy, 2015), frozen on demand.

    In training it normalises by the statistics of the batch and updates the running
    ones, unless the collection "frozen" has an entry "statistics" at its path: then it
    normalises by the running statistics, as in evaluation, and does not change them.

    Attributes:
      train: whether the model is being trained; replaces `use_running_average`.
      use_fast_variance: see `LayerNorm`.
    """

    train: bool = False
    use_fast_variance: bool = False

    def __call__(self, x: Float[Array, "... channels"]) -> Float[Array, "... channels"]:
        frozen = self.has_variable("frozen", "statistics")
        y = super().__call__(x, use_running_average=frozen or not self.train)
        return backend.with_stored_gradient(y)


def batch_norm(dtype: DTypeLike, train: bool) -> Callable[..., BatchNorm]:
    """norm(name=...) -> a layer with the constants of the usual recipes."""
    return functools.partial(
        BatchNorm, train=train, momentum=0.9, epsilon=1e-5, dtype=dtype
    )
