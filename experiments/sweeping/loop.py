"""The training of a sweep's members to the end, scored on the images held out."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable

import numpy as np

from experiments.sweeping.members import Sweep
from experiments.sweeping.saved import Done
from vit_jax.errors import UserError
from vit_jax.training.dispatch import plan_dispatches
from vit_jax.training.progress import Progress, waiting


def run_sweep(
    sweep: Sweep,
    *,
    steps_per_dispatch: int,
    done: Done | None = None,
    keep: Callable[[Done], None] = lambda done: None,
) -> Done:
    """Trains and scores to the end, and shows the mean loss of the members on the way.

    Args:
      steps_per_dispatch: at most, on the way from one evaluation to the next.
      done: what `sweep.states` have behind them; it is changed.
      keep: gets it after each evaluation, and before an error.

    Raises:
      UserError: no member has a finite loss any more.
    """
    plan = sweep.experiment.plan
    done = done or Done([[] for _ in sweep.members])
    # A sweep is saved where it is evaluated, and its checkpoints need no stop.
    stops = dataclasses.replace(plan, checkpoint_every=plan.total_steps)
    dispatches = plan_dispatches(stops, done.step, steps_per_dispatch)
    lengths = [length for _, length in dispatches]
    if not lengths:
        return done
    with waiting("compiling the train step and the evaluation"):
        sweep.compile({*lengths})
    images_per_step = sweep.experiment.config.batch_size * len(sweep.members)
    progress = Progress(plan.total_steps, done.step, plan.log_every)
    with contextlib.closing(progress):
        for length in lengths:
            start = time.monotonic()
            losses = sweep.train(done.step, done.step + length)["loss"]
            seconds = time.monotonic() - start
            done.seconds += seconds
            done.step += length
            progress.update(done.step)
            finite = losses[np.isfinite(losses)]
            if not finite.size:
                keep(done)
                raise UserError(
                    "The training loss of every member is not finite at step "
                    f"{done.step}; give lower --learning_rates."
                )
            if done.step % plan.log_every < length:
                speed = length * images_per_step / seconds
                shown = {"loss": finite.mean(), "images_per_second": speed}
                progress.metrics({"step": done.step, **shown})
            if not plan.is_due(done.step, plan.eval_every):
                continue
            for records, scores in zip(done.history, sweep.score(), strict=True):
                records.append({"step": done.step, **scores})
            keep(done)
            known = [h[-1]["accuracy"] for h in done.history]
            best = max(filter(math.isfinite, known), default=math.nan)
            progress.line(
                f"step {done.step}/{plan.total_steps}: best val accuracy {best:.2%}"
            )
    return done
