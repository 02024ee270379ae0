"""Dispatches: how many train steps each has, and their compiled programs."""

import contextlib
import dataclasses
import functools
import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key
from ml_collections import ConfigDict

from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.parallel import host_memory
from vit_jax.parallel import mesh as meshes
from vit_jax.training import steps
from vit_jax.training.experiment import Experiment
from vit_jax.training.input_pipeline import NUM_WAITING, InputPipeline
from vit_jax.training.plan import Plan
from vit_jax.training.train_state import TrainState

# Limit in bytes for the images that the host copies to the devices for one dispatch.
_MAX_COPIED_BYTES = 2**28


@dataclasses.dataclass(frozen=True)
class TrainProgram:
    """The compiled train steps of a run, and what gives them their batches.

    Attributes:
      dispatches: (first step, number of steps) of each, to the end of the run.
      compiled: for each number of steps the function of `compile_steps`.
      pipeline: gives each dispatch its batches.
      root_key: the run's random key, on the mesh.
      compile_seconds: by the wall clock.
    """

    dispatches: list[tuple[int, int]]
    compiled: dict[int, Callable]
    pipeline: InputPipeline
    root_key: Key[Array, ""]
    compile_seconds: float


def compile_training(
    experiment: Experiment, state: TrainState, num_dispatches: int | None = None
) -> TrainProgram:
    """Plans the dispatches from `state` to the end, or only the first `num_dispatches`,
    and compiles them; raises as `compile_steps` does."""
    config, plan, mesh = experiment.config, experiment.plan, experiment.mesh
    pipeline = InputPipeline(experiment.splits["train"], config, mesh)
    most = steps_per_dispatch(config, plan, pipeline)
    planned = plan_dispatches(plan, int(state.step), most)
    dispatches = list(itertools.islice(planned, num_dispatches))
    # jax.device_put would copy from one process to the others.
    copy = jax.jit(lambda key: key, out_shardings=meshes.replicated(mesh))
    root_key = copy(experiment.root_key)
    start, sizes = time.monotonic(), {size for _, size in dispatches}
    compiled = compile_steps(experiment, state, root_key, pipeline, sizes)
    seconds = time.monotonic() - start
    return TrainProgram(dispatches, compiled, pipeline, root_key, seconds)


def plan_dispatches(
    plan: Plan, first_step: int, max_steps: int
) -> Iterator[tuple[int, int]]:
    """(first step, number of steps) of each dispatch from `first_step` to the end.

    Every evaluation, every checkpoint and the end fall between two dispatches. Each
    number of steps is a program that has to be compiled. Therefore most dispatches have
    the number, above half of `max_steps`, with which the stage needs the fewest
    programs.
    """
    size, halves = _best_size(plan, max_steps)
    step = first_step
    while step < plan.last_step:
        phase, length = _until_stop(plan, step - plan.first_step)
        for count in _cut(phase, length, size, halves):
            yield step, count
            step += count


def _until_stop(plan: Plan, done: int) -> tuple[int, int]:
    """(steps since the last evaluation, steps to the next stop) after `done` steps.

    A stop is an evaluation, a checkpoint or the end.
    """
    length = min(
        plan.total_steps - done,
        plan.checkpoint_every - done % plan.checkpoint_every,
        plan.eval_every - done % plan.eval_every,
    )
    return done % plan.eval_every, length


def _best_size(plan: Plan, max_steps: int) -> tuple[int, bool]:
    """(size, halves) for `_cut` with which a stage needs the fewest programs."""
    segments, done = set(), 0  # A long stage repeats the same few.
    while done < plan.total_steps:
        segments.add(segment := _until_stop(plan, done))
        done += segment[1]

    def num_programs(choice: tuple[int, bool]) -> int:
        return len({count for segment in segments for count in _cut(*segment, *choice)})

    sizes = range(max_steps, max_steps // 2, -1)
    return min(itertools.product(sizes, (False, True)), key=num_programs)


def _cut(phase: int, length: int, size: int, halves: bool) -> Iterator[int]:
    """Divides the steps to the next stop into dispatches; yields the steps of each.

    A dispatch has `size` steps, or fewer where the next multiple of `size` or the stop
    comes before.

    Args:
      phase: steps since the last evaluation, from which the multiples are counted.
      length: steps to the stop.
      halves: whether a shorter dispatch is divided into powers of two, so that
        dispatches of many lengths need few programs.
    """
    while length:
        count = min(length, size - phase % size)
        if halves and count < size:
            count = 1 << (count.bit_length() - 1)
        yield count
        phase, length = phase + count, length - count


def steps_per_dispatch(config: ConfigDict, plan: Plan, pipeline: InputPipeline) -> int:
    """The setting, or the largest number that this machine should use.

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
    experiment: Experiment,
    state: TrainState,
    root_key: Key[Array, ""],
    pipeline: InputPipeline,
    sizes: Iterable[int],
) -> dict[int, Callable]:
    """`steps.train_steps`, compiled for each number of steps in `sizes`.

    The functions take (state, pipeline.split, batches, root_key, lr_scale,
    experiment.teacher). The memory of the old state is reused for the new one.

    Raises:
      UserError: the step does not fit into the device's memory.
    """
    whole = meshes.replicated(experiment.mesh)
    shardings = jax.tree.map(lambda x: x.sharding, state)
    jitted = backend.jit(
        functools.partial(steps.train_steps, train_step=experiment.train_step),
        out_shardings=(shardings, whole),
        donate_argnums=0,
    )
    lr_scale = jax.ShapeDtypeStruct((), jnp.float32, sharding=whole)
    compiled = {}
    with host_memory.compiling():
        for size in sizes:
            batches = pipeline.shapes(size)
            compiled[size] = jitted.lower(
                state, pipeline.split, batches, root_key, lr_scale, experiment.teacher
            ).compile()
            _require_memory(compiled[size], experiment, pipeline.num_bytes(size))
    return compiled


def _require_memory(compiled: Any, experiment: Experiment, batch_bytes: int) -> None:
    """Refuses a step that needs more memory than is free; XLA would only abort.

    `batch_bytes` is the size of one dispatch's batches, over all devices.
    """
    sizes, free = compiled.memory_analysis(), meshes.free_bytes(experiment.mesh)
    if sizes is None or free is None:
        return
    new = sizes.output_size_in_bytes - sizes.alias_size_in_bytes
    # The batches of several dispatches are on the device at once.
    waiting = NUM_WAITING * batch_bytes // experiment.mesh.size
    needed = sizes.temp_size_in_bytes + max(0, new) + waiting
    if needed > free:
        raise _out_of_memory(experiment, needed, free)


def _out_of_memory(experiment: Experiment, needed: int, free: int) -> UserError:
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
    return UserError(
        f"A training step of {config.batch_size} images needs about "
        f"{needed / 1e9:,.2f} GB of free memory, but {free / 1e9:,.2f} GB are free; "
        f"try {' or '.join(advice)}, or smaller still."
    )


@contextlib.contextmanager
def explain_out_of_memory(config: ConfigDict) -> Iterator[None]:
    """A context that turns JAX's report of exhausted memory into a UserError."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        asked = re.search(r"allocate ([\d.]+ ?\w*)", str(error))
        raise UserError(
            f"The device's memory is exhausted{f' ({asked[0]})' if asked else ''} with "
            f"config.batch_size={config.batch_size}, config.optim.num_microbatches="
            f"{config.optim.num_microbatches} and config.eval_batch_size="
            f"{config.eval_batch_size}; halve the first (or double the second), or, if "
            "it happened in an evaluation, the third, and rerun the same command."
        ) from error
