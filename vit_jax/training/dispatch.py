"""Dispatches: how many train steps each has, and the program that computes them."""

import collections
import contextlib
import dataclasses
import functools
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.parallel import host_memory
from vit_jax.parallel import mesh as meshes
from vit_jax.training import steps
from vit_jax.training.experiment import Experiment
from vit_jax.training.input_pipeline import NUM_WAITING, InputPipeline
from vit_jax.training.plan import Plan

# Limit in bytes for the images that the host copies to the devices for one dispatch.
_MAX_COPIED_BYTES = 2**28
_MAX_STOPS = 10_000


@dataclasses.dataclass(frozen=True)
class TrainProgram:
    """The compiled train steps of a stage, and what gives them their batches.

    Attributes:
      size: the number of steps that the program computes.
      compiled: (state, batches, lr_scale) -> (state, metrics); see `compile_steps`.
      pipeline: gives each dispatch its batches.
      compile_seconds: by the wall clock.
    """

    size: int
    compiled: Callable
    pipeline: InputPipeline
    compile_seconds: float


def compile_training(experiment: Experiment) -> TrainProgram:
    """Compiles the train program of a stage; raises as `compile_steps` does."""
    config, plan, mesh = experiment.config, experiment.plan, experiment.mesh
    pipeline = InputPipeline(experiment.splits["train"], config, mesh)
    size = program_size(plan, most_steps(config, plan, pipeline))
    # jax.device_put would copy from one process to the others.
    copy = jax.jit(lambda key: key, out_shardings=meshes.replicated(mesh))
    root_key = copy(experiment.root_key)
    start = time.monotonic()
    compiled = compile_steps(experiment, pipeline, size)
    seconds = time.monotonic() - start

    def run(state, batches, lr_scale):
        inputs = (pipeline.split, batches, root_key, lr_scale, experiment.teacher)
        return compiled(state, *inputs)

    return TrainProgram(size, run, pipeline, seconds)


def program_size(plan: Plan, most: int) -> int:
    """The number of steps, at most `most`, that the program of a stage computes.

    Every evaluation, every checkpoint and the end fall between two dispatches. One
    program does all dispatches, because it takes up to a minute to compile. A dispatch
    that needs fewer steps computes the others in vain, so the number is the one with
    the least to compute; each dispatch counts as another step, for its launch.
    """
    lengths, done = collections.Counter(), 0
    # The first stops tell enough of a training that is very long.
    while done < plan.total_steps and lengths.total() < _MAX_STOPS:
        lengths[length := _until_stop(plan, done)] += 1
        done += length

    def num_computed(size: int) -> int:
        calls = sum(-(-length // size) * times for length, times in lengths.items())
        return calls * (size + 1)

    return min(range(most, 0, -1), key=num_computed)


def plan_dispatches(
    plan: Plan, first_step: int, size: int
) -> Iterator[tuple[int, int]]:
    """(first step, number of steps) of each dispatch from `first_step` to the end."""
    step = first_step
    while step < plan.last_step:
        count = min(size, _until_stop(plan, step - plan.first_step))
        yield step, count
        step += count


def _until_stop(plan: Plan, done: int) -> int:
    """Steps to the next evaluation, checkpoint or end after `done` of a stage."""
    return min(
        plan.total_steps - done,
        plan.checkpoint_every - done % plan.checkpoint_every,
        plan.eval_every - done % plan.eval_every,
    )


def most_steps(config: ConfigDict, plan: Plan, pipeline: InputPipeline) -> int:
    """The most steps of a dispatch: the setting, or what this machine should use.

    Without the setting it is at most `backend.max_steps_per_dispatch`, the length of a
    logging interval and, where the host copies the images, what memory allows.
    """
    if config.steps_per_dispatch:
        return config.steps_per_dispatch
    most = min(plan.log_every, backend.max_steps_per_dispatch())
    if pipeline.split is None:
        most = min(most, _MAX_COPIED_BYTES // pipeline.num_bytes(1))
    return max(1, most)


def compile_steps(
    experiment: Experiment, pipeline: InputPipeline, size: int
) -> Callable:
    """`steps.train_steps`, compiled for `size` steps.

    The function takes (state, pipeline.split, batches, root_key, lr_scale,
    experiment.teacher), of which key and scale have a whole copy on each device. The
    memory of the old state is reused for the new one.

    Raises:
      UserError: the step does not fit into the device's memory.
    """
    whole, state = meshes.replicated(experiment.mesh), experiment.state_shapes
    jitted = backend.jit(
        functools.partial(steps.train_steps, train_step=experiment.train_step),
        out_shardings=(jax.tree.map(lambda x: x.sharding, state), whole),
        donate_argnums=0,
    )
    key, lr_scale = (
        jax.ShapeDtypeStruct((), dtype, sharding=whole)
        for dtype in (experiment.root_key.dtype, jnp.float32)
    )
    inputs = (pipeline.split, pipeline.shapes(size), key, lr_scale)
    with host_memory.compiling():
        compiled = jitted.lower(state, *inputs, experiment.teacher).compile()
    _require_memory(compiled, experiment, pipeline, size)
    return compiled


def _require_memory(
    compiled: Any, experiment: Experiment, pipeline: InputPipeline, size: int
) -> None:
    """Refuses a step that needs more memory than is free; XLA would only abort."""
    sizes = compiled.memory_analysis()
    free = meshes.free_bytes(experiment.mesh.local_devices)
    if sizes is None or free is None:
        return
    new = sizes.output_size_in_bytes - sizes.alias_size_in_bytes
    # The batches of several dispatches are on the device at once.
    waiting = NUM_WAITING * pipeline.num_bytes(size) // experiment.mesh.size
    needed = sizes.temp_size_in_bytes + max(0, new) + waiting
    if needed <= free:
        return
    config, num_devices = experiment.config, experiment.mesh.size
    fraction, num_microbatches = free / needed, experiment.num_microbatches
    num_parts = num_devices * num_microbatches
    smaller = int(config.batch_size * fraction) // num_parts * num_parts
    advice = [f"config.batch_size={smaller}" if smaller else "a smaller model"]
    per_device = config.batch_size // num_devices
    fitting = [
        n
        for n in range(num_microbatches + 1, per_device + 1)
        if per_device % n == 0 and n * fraction >= num_microbatches
    ]
    if fitting:
        advice.append(f"config.optim.num_microbatches={fitting[0]}")
    images = pipeline.split[0] if pipeline.split is not None else None
    if images is not None and images.nbytes >= needed - free:
        advice.append("config.data.placement=host")
    raise UserError(
        f"A training step of {config.batch_size} images needs about "
        f"{needed / 1e9:,.2f} GB of free memory, but {free / 1e9:,.2f} GB are free; "
        f"try {' or '.join(advice)}."
    )


@contextlib.contextmanager
def explain_out_of_memory(experiment: Experiment) -> Iterator[None]:
    """A context that turns JAX's report of exhausted memory into a UserError."""
    config = experiment.config
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        asked = re.search(r"allocate ([\d.]+ ?\w*)", str(error))
        raise UserError(
            f"The device's memory is exhausted{f' ({asked[0]})' if asked else ''} with "
            f"config.batch_size={config.batch_size}, config.optim.num_microbatches="
            f"{experiment.num_microbatches} and config.eval_batch_size="
            f"{config.eval_batch_size}; halve the third if it happened in an "
            "evaluation, else double the second, which a run that has saved a state "
            "takes with --resume_with_changes."
        ) from error
