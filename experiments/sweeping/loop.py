"""The training of a sweep's members to the end, scored on the images held out."""

import time
from collections.abc import Callable

import numpy as np

from experiments.sweeping.members import Sweep
from experiments.sweeping.saved import Done
from vit_jax.errors import UserError
from vit_jax.training.progress import say


def run_sweep(
    sweep: Sweep,
    *,
    steps_per_dispatch: int,
    done: Done | None = None,
    keep: Callable[[Done], None] = lambda done: None,
) -> Done:
    """Trains and scores to the end.

    Args:
      steps_per_dispatch: at most, on the way from one evaluation to the next.
      done: what `sweep.states` have behind them; it is changed.
      keep: gets it after each evaluation, and before an error.

    Raises:
      UserError: no member has a finite loss any more.
    """
    plan = sweep.experiment.plan
    done = done or Done([[] for _ in sweep.members])
    lengths = set()
    while done.step < plan.total_steps:
        until_eval = plan.eval_every - done.step % plan.eval_every
        length = min(steps_per_dispatch, until_eval, plan.total_steps - done.step)
        start = time.monotonic()
        metrics = sweep.train(done.step, done.step + length)
        # The first dispatch of each length compiles.
        done.seconds += time.monotonic() - start if length in lengths else 0.0
        lengths.add(length)
        done.step += length
        if not np.isfinite(metrics["loss"]).any():
            keep(done)
            raise UserError(
                "The training loss of every member is not finite at step "
                f"{done.step}; give lower --learning_rates."
            )
        if done.step % plan.eval_every == 0 or done.step == plan.total_steps:
            for records, scores in zip(done.history, sweep.score(), strict=True):
                records.append({"step": done.step, **scores})
            keep(done)
            best = max(h[-1]["accuracy"] for h in done.history)
            say(f"step {done.step}/{plan.total_steps}: best val accuracy {best:.2%}")
    return done
