"""The durations of a config, in optimizer steps."""

import dataclasses
import functools
import math

from ml_collections import ConfigDict

from vit_jax.config.durations import parse_interval, to_steps


@dataclasses.dataclass(frozen=True)
class Plan:
    """The durations of a stage, in optimizer steps.

    Attributes:
      total_steps: length of the stage.
      log_every, eval_every, checkpoint_every: counted from the stage's beginning.
        Checkpoints that come by the clock leave `checkpoint_every` at `total_steps`.
      mix_until, stop_after: steps of the stage before mixing ends, and before it may
        stop early.
      first_step: number of steps done before the stage.
      checkpoint_seconds: wall-clock time between two checkpoints; infinite where they
        come by steps.
    """

    steps_per_epoch: float
    total_steps: int
    log_every: int
    eval_every: int
    checkpoint_every: int
    mix_until: int
    stop_after: int
    first_step: int = 0
    checkpoint_seconds: float = math.inf

    @property
    def last_step(self) -> int:
        """Number of steps done after the stage, unless it stops early."""
        return self.first_step + self.total_steps

    def is_due(self, step: int, every: int) -> bool:
        """Whether what is done every `every` steps and at the end is due at `step`."""
        return step == self.last_step or (step - self.first_step) % every == 0


def make_plan(config: ConfigDict, num_examples: int, first_step: int = 0) -> Plan:
    """Converts a stage's durations to steps; an epoch is `num_examples` images."""
    steps_per_epoch = num_examples / config.batch_size
    total_steps = config.num_steps or max(
        1, to_steps(config.num_epochs, steps_per_epoch=steps_per_epoch)
    )
    convert = functools.partial(
        to_steps, steps_per_epoch=steps_per_epoch, total_steps=total_steps
    )
    eval_every = max(1, convert(config.eval_every))
    checkpoint_every, checkpoint_seconds = total_steps, math.inf
    number, unit = parse_interval(config.checkpoint_every)
    if unit == "seconds":
        checkpoint_seconds = number
    else:
        checkpoint_every = max(1, convert(config.checkpoint_every))
        # If checkpoints come every so many evaluations in epochs, they should also do
        # so in steps, where rounding could prevent it. The steps between two stops are
        # then always as many, and few are computed in vain (see
        # `dispatch.program_size`).
        ratio = round(checkpoint_every / eval_every)
        if unit != "steps" and abs(checkpoint_every - ratio * eval_every) <= ratio:
            checkpoint_every = ratio * eval_every
    return Plan(
        steps_per_epoch=steps_per_epoch,
        total_steps=total_steps,
        log_every=max(1, convert(config.log_every)),
        eval_every=eval_every,
        checkpoint_every=checkpoint_every,
        mix_until=convert(config.augment.mix_until),
        stop_after=convert(config.early_stopping.after),
        first_step=first_step,
        checkpoint_seconds=checkpoint_seconds,
    )
