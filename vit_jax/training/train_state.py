"""The training state, which holds everything that a step changes; and random keys."""

import zlib
from typing import Any

import flax
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Int, Key

from vit_jax import models
from vit_jax.training import trainable


@flax.struct.dataclass
class TrainState:
    """Everything that training changes. It holds no random key: see `key_for`.

    Attributes:
      step: number of optimizer steps done, int32 scalar.
      params: float32 parameters.
      batch_stats: BatchNorm's running statistics; {} for models without BatchNorm.
      ema: exponential moving averages {"params", "batch_stats"}, or None where they are
        switched off. The statistics are averaged as well, because those of the current
        parameters do not fit the averaged ones.
      opt_state: state of the optimizer.
    """

    # The types are Any because JAX also builds states of shapes or shardings.
    step: Any
    params: Any
    batch_stats: Any
    ema: Any
    opt_state: Any

    @property
    def variables(self) -> dict[str, Any]:
        """The variables for evaluation: the averages where they are switched on."""
        if self.ema is not None:
            return self.ema
        return {"params": self.params, "batch_stats": self.batch_stats}


def make_root_key(seed: int) -> Key[Array, ""]:
    """The key that all random numbers of a run come from, whatever the environment.

    Without a name JAX would take the kind of its keys from a setting of its own.
    """
    return jax.random.key(seed, impl="threefry2x32")


def key_for(
    root: Key[Array, ""], name: str, step: int | Int[Array, ""]
) -> Key[Array, ""]:
    """The random key for one purpose at one step.

    So a run that is resumed at a step draws the same numbers there as an uninterrupted
    one.

    Args:
      root: the run's only key, `make_root_key(config.seed)`.
      name: of the purpose, such as "augment"; names give independent streams.
      step: number of optimizer steps done before.
    """
    named = jax.random.fold_in(root, jnp.uint32(zlib.crc32(name.encode())))
    return jax.random.fold_in(named, step)


def init_state(
    root_key: Key[Array, ""],
    *,
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    image_shape: tuple[int, int, int],
    use_ema: bool,
    trained: frozenset[str] | None = None,
) -> TrainState:
    """The state before the first step; the optimizer's is of the `trained` names."""
    key = key_for(root_key, "init", 0)
    variables = models.init_variables(model, key, image_shape)
    variables = {"batch_stats": {}, **variables}
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        **variables,
        # A copy, because a donated state must not hold one buffer twice.
        ema=jax.tree.map(jnp.copy, variables) if use_ema else None,
        opt_state=optimizer.init(trainable.split(variables["params"], trained)[0]),
    )
