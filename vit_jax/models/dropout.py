"""Dropout that draws an eighth as many random numbers as Flax's."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.extend.random import threefry2x32_p
from jaxtyping import Array, Bool, Float, PRNGKeyArray

_LEVELS = 2**16
_GOLDEN = 0x9E3779B9  # 2**32 divided by the golden ratio


class Dropout(nn.Dropout):
    """`nn.Dropout` from 16 random bits an element.

    On a CPU, drawing random bits is most of the cost of dropout. The rate is rounded to
    a multiple of 2**-16, and the elements that are kept are scaled by 1 / (1 - rate) of
    the rounded rate, so that the expectation is exact.
    """

    def __call__(self, inputs: Float[Array, "..."]) -> Float[Array, "..."]:
        keep, scale = self.mask(inputs.shape)
        return inputs if keep is None else jnp.where(keep, inputs * scale, 0)

    @nn.compact
    def mask(self, shape: tuple[int, ...]) -> tuple[Bool[Array, "..."] | None, float]:
        """What is kept of an array, None for everything, and the factor of that."""
        if self.deterministic or not self.rate:
            return None, 1.0
        drawn = [
            1 if axis in self.broadcast_dims else size
            for axis, size in enumerate(shape)
        ]
        num_dropped = min(round(self.rate * _LEVELS), _LEVELS - 1)
        keep = random_mask(self.make_rng("dropout"), tuple(drawn), num_dropped)
        return keep, _LEVELS / (_LEVELS - num_dropped)


def random_mask(
    key: PRNGKeyArray, shape: tuple[int, ...], num_dropped: int
) -> Bool[Array, "..."]:
    """True with probability 1 - num_dropped / 2**16 for each element.

    Each element compares a number of 16 bits with `num_dropped`. The upper 8 bits are
    its own and come from Threefry (Salmon et al., 2011), which turns a key and two
    counters into 64 bits, enough for 8 elements. The counters are the number of a row
    along the last axis, below 2**32, and a place in it, so that a batch that is divided
    over devices gets the same mask as on one device. The elements of a row share the
    lower 8 bits, which round the threshold of the upper ones up or down. These bits
    step through a Weyl sequence from row to row, and begin where the key says.
    """
    *outer, size = shape
    places = (*outer, -(-size // 8))
    place = jax.lax.broadcasted_iota(jnp.uint32, places, len(outer))
    row = jnp.zeros_like(place)
    for axis, length in enumerate(outer):
        row = row * length + jax.lax.broadcasted_iota(jnp.uint32, places, axis)
    first, second = jax.random.key_data(key)
    lower = (row[..., :1] * jnp.uint32(_GOLDEN) + first) >> 24
    threshold = (num_dropped + lower) >> 8
    left, right = (
        jax.lax.bitcast_convert_type(number, jnp.uint8).reshape(*outer, -1) >= threshold
        for number in threefry2x32_p.bind(first, second, row, place)
    )
    # XLA computes a concatenation apart from the sums over a gradient, which then is
    # read once more; it does not so with padding.
    width, zeros = left.shape[-1], len(outer) * ((0, 0),)
    left = jnp.pad(left, (*zeros, (0, width)), constant_values=True)
    right = jnp.pad(right, (*zeros, (width, 0)), constant_values=True)
    return (left & right)[..., :size]
