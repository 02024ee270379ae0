"""Random keys as a pure function of (root key, name, step)."""

import zlib

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key


def key_for(
    root: Key[Array, ""], name: str, step: int | Int[Array, ""]
) -> Key[Array, ""]:
    """The random key for one purpose at one step.

    The training state holds no random key, so a run that resumes at a step draws what
    the uninterrupted run drew there.

    Args:
      root: the run's only key, `jax.random.key(config.seed)`.
      name: of the purpose, such as "augment"; names give independent streams.
      step: number of optimizer steps done before.
    """
    named = jax.random.fold_in(root, jnp.uint32(zlib.crc32(name.encode())))
    return jax.random.fold_in(named, step)
