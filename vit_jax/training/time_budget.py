"""The length of a training that is given as a time.

The learning rate must reach its end when the time does, so the number of steps has to
be known before the first one. The time of a step is measured once, on a copy of the run
that is thrown away, and the number of steps is kept in the run's config.json: a run
that is resumed on a busier machine takes longer, and ends with the same bits.
"""

import contextlib
import itertools
import math
import time
from collections.abc import Callable

import jax
import numpy as np
from ml_collections import ConfigDict

from vit_jax import data
from vit_jax.config.durations import parse_time_budget
from vit_jax.errors import UserError, show
from vit_jax.models import backend
from vit_jax.parallel import mesh as meshes
from vit_jax.parallel import processes
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.run import Run
from vit_jax.training import dispatch
from vit_jax.training.experiment import Experiment, make_experiment
from vit_jax.training.progress import say, waiting

# The steps that are measured take this fraction of the budget, up to a minute.
_FRACTION, _MOST_SECONDS = 0.02, 60.0
_FEWEST_DISPATCHES = 3
# The length of the copy, which has to be longer than any warm-up.
_MANY_STEPS = 1_000_000


def set_num_steps(
    config: ConfigDict,
    splits: dict[str, data.Dataset],
    folder: RunFolder,
    resume_with_changes: bool,
    teacher: Run | None = None,
    check: Callable[[Experiment], object] = lambda experiment: None,
) -> ConfigDict:
    """The config with the number of steps that its time budget has room for.

    A number that the config gives replaces the budget. The number of a run of the same
    budget that has saved a state in this folder stays. Without a budget the config is
    returned as is.

    Args:
      resume_with_changes: whether a run with another budget may go on with this one.
      check: called with an experiment of another length before anything is compiled.

    Raises:
      UserError: the budget is processor time, but the device is no CPU; the folder
        holds a run of epochs; or whatever `make_experiment` and
        `dispatch.compile_steps` refuse.
    """
    if not config.time_budget:
        return config
    config = config.copy_and_resolve_references()
    saved = processes.broadcast_from_primary(
        lambda: folder.read("config") if folder.is_started() else {}
    )
    same_budget = saved.get("time_budget") == config.time_budget
    if config.num_steps:
        if not saved:
            say(f"config.num_steps={config.num_steps} replaces config.time_budget")
        # The run's own config.json has both where the number was measured.
        if not same_budget or config.num_steps != saved["num_steps"]:
            config.time_budget = None
        return config
    if saved and (same_budget or not resume_with_changes):
        if saved["num_steps"] is None:
            raise UserError(
                f"{folder.path} holds a run whose length is no number of steps, but "
                f"config.time_budget is {show(config.time_budget)}; leave that out, or "
                "give another --workdir or --resume_with_changes."
            )
        # A folder of another budget will be refused, whatever the number.
        config.num_steps = saved["num_steps"]
        return config
    seconds, of_cpu = parse_time_budget(config.time_budget)
    if of_cpu and backend.platform() != "cpu":
        raise UserError(
            f"config.time_budget is {show(config.time_budget)}, but the device is a "
            f"{backend.platform()}, on which processor time says nothing; give a time "
            'without "CPU".'
        )
    config.num_steps = _MANY_STEPS
    copy = processes.run_on_all(
        lambda: make_experiment(config, splits, teacher=teacher)
    )
    check(copy)
    measuring = waiting("measuring how long a step takes")
    with dispatch.explain_out_of_memory(copy), measuring:
        each = _seconds_per_step(copy, of_cpu, min(seconds * _FRACTION, _MOST_SECONDS))
    each = processes.broadcast_from_primary(lambda: each)
    config.num_steps = max(1, round(seconds / each))
    say(f"{each:.3g} s a step: {config.num_steps:,} steps in {config.time_budget}")
    return config


def _seconds_per_step(experiment: Experiment, of_cpu: bool, at_least: float) -> float:
    """Mean time of a step over `at_least` seconds, by the processor's or wall clock.

    The few steps that short dispatches compute in vain are neglected.
    """
    now = time.process_time if of_cpu else time.monotonic
    state = experiment.init_state()
    program = dispatch.compile_training(experiment)
    size = program.size
    lr_scale = meshes.put(np.float32(1), meshes.replicated(experiment.mesh))
    dispatches = ((i * size, size) for i in itertools.count())
    stream = program.pipeline.stream(dispatches, size)

    def run_dispatches(number: int) -> float:
        nonlocal state
        start = now()
        for _, batches in itertools.islice(stream, number):
            state, metrics = program.compiled(state, batches, lr_scale)
            jax.block_until_ready(metrics)
        return now() - start

    with contextlib.closing(stream):
        run_dispatches(1)  # It still allocates memory.
        each = run_dispatches(_FEWEST_DISPATCHES) / _FEWEST_DISPATCHES
        # The processes compute together, so all of them run as many.
        number = processes.broadcast_from_primary(lambda: math.ceil(at_least / each))
        return run_dispatches(max(1, number)) / (max(1, number) * size)
