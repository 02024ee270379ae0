"""LayerNorm, and BatchNorm that can be frozen, with exact statistics."""

import functools
from collections.abc import Callable

from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from vit_jax.models import backend

# By default Flax computes a variance as the mean of squares minus the square of the
# mean. In float32 that loses the digits in which the two agree: nearly all of them on
# an even image, whose mean is large against its deviation.
LayerNorm = functools.partial(nn.LayerNorm, use_fast_variance=False)


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
