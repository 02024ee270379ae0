"""Random keys as a pure function of (root key, name, step)."""

import zlib

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key


def key_for(
    root: Key[Array, ""], name: str, step: int | Int[Array, ""]
) -> Key[Array, ""]:
    """The key of one use of randomness at one step.

    Nothing random is kept in the training state, so a run that resumes at step s draws
    what the uninterrupted run drew at s.

    Args:
      root: the run's only key, `jax.random.key(config.seed)`.
      name: of the use, such as "augment"; different names give independent streams.
      step: number of optimizer steps done before.
    """
    named = jax.random.fold_in(root, jnp.uint32(zlib.crc32(name.encode())))
    return jax.random.fold_in(named, step)
