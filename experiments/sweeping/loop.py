"""The training of a sweep's members to the end, scored on the images held out.

Its states and evaluations are saved on the way, and an interrupted sweep goes on from
them.
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from experiments.sweeping.members import Sweep
from vit_jax.errors import UserError
from vit_jax.files import as_json
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.folder import settings_to_compare
from vit_jax.training import scoring
from vit_jax.training.dispatch import plan_dispatches
from vit_jax.training.progress import Progress, waiting


@dataclasses.dataclass
class Done:
    """What a sweep has done so far.

    Attributes:
      history: {"step", "accuracy", "loss"} of each member's evaluations, in order.
      step: number of steps done.
      seconds: of training, without compilation and evaluation.
    """

    history: list[list[dict[str, float]]]
    step: int = 0
    seconds: float = 0.0


def save(checkpoints: Checkpoints, sweep: Sweep, done: Done) -> None:
    """Starts to save what `restore` needs; raises as `Checkpoints.save` does."""
    metadata = {"identity": _identity(sweep), "done": dataclasses.asdict(done)}
    checkpoints.save(
        done.step, sweep.states, metadata=metadata, accuracy=None, loss=None
    )


def restore(checkpoints: Checkpoints, sweep: Sweep) -> Done:
    """Sets the newest saved states, where there are any.

    Raises:
      UserError: they are of a sweep with other settings or members.
    """
    if checkpoints.latest_step is None:
        return Done([[] for _ in sweep.members])
    metadata = checkpoints.metadata("latest")
    before, now = metadata["identity"], as_json(_identity(sweep))
    if different := [key for key in now if before.get(key) != now[key]]:
        raise UserError(
            f"--out names a sweep that differs in {', '.join(different)}; give another "
            "--out, or remove its .json and its .states."
        )
    sweep.states, _ = checkpoints.restore("latest", sweep.states)
    return Done(**metadata["done"])


@contextlib.contextmanager
def _fitting(sweep: Sweep) -> Iterator[None]:
    """Turns JAX's report of exhausted memory into a UserError."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise UserError(
            f"The device's memory is exhausted by {len(sweep.members)} members at "
            "once; give fewer --learning_rates or --seeds, or a smaller "
            "config.batch_size."
        ) from error


def _identity(sweep: Sweep) -> dict[str, Any]:
    """What must be the same for a sweep to go on."""
    members = [dataclasses.asdict(member) for member in sweep.members]
    own = {
        "--learning_rates and --seeds": members,
        # Where data lie is free, as long as their classes, shapes and sizes agree.
        "data": scoring.describe_dataset(sweep.experiment.splits),
    }
    return settings_to_compare(sweep.experiment.config) | own


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
    with waiting("compiling the train step and the evaluation"), _fitting(sweep):
        sweep.compile({*lengths})
    images_per_step = sweep.experiment.config.batch_size * len(sweep.members)
    progress = Progress(plan.total_steps, done.step, plan.log_every)
    with contextlib.closing(progress), _fitting(sweep):
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
