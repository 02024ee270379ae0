"""Train steps, several at a time: how many, compiled, and whether they fit."""

import bisect
import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key
from ml_collections import ConfigDict

from vit_jax.errors import UserError
from vit_jax.models.backend import compiler_options
from vit_jax.parallel import mesh as meshes
from vit_jax.training import steps
from vit_jax.training.experiment import Experiment, Plan
from vit_jax.training.input_pipeline import NUM_WAITING, Feed

# On an accelerator: enough to hide the host, and few enough for signals to be answered
# soon.
_MAX_STEPS = 100
# Of images that the host feeds to one dispatch.
_MAX_FED_BYTES = 2**28


def plan_dispatches(
    plan: Plan, first_step: int, max_steps: int
) -> Iterator[tuple[int, int]]:
    """(first step, number of steps) of each dispatch from `first_step` to the end.

    No dispatch goes past an evaluation, a checkpoint or the end. Each size is compiled
    for itself, so there are few: the steps between two evaluations are cut as evenly as
    can be, which takes two sizes, and what is left before any other stop is cut into
    powers of two.
    """
    every = plan.eval_every
    num_cuts = math.ceil(every / max_steps)
    cuts = [round(i * every / num_cuts) for i in range(num_cuts + 1)]
    step = first_step
    while step < plan.total_steps:
        next_cut = bisect.bisect_right(cuts, step % every)
        size = cuts[next_cut] - step % every
        left = min(
            plan.total_steps - step,
            plan.checkpoint_every - step % plan.checkpoint_every,
        )
        if left < size or step % every != cuts[next_cut - 1]:
            size = 1 << (min(left, size).bit_length() - 1)
        yield step, size
        step += size


def steps_per_dispatch(config: ConfigDict, plan: Plan, feed: Feed) -> int:
    """The setting, or what suits the device.

    On CPU one: there a dispatch costs microseconds, and XLA (JAX 0.10) runs a
    convolution inside a loop some 40 times slower. Elsewhere a logging interval's, or
    as many as memory can wait for where the host feeds the images.
    """
    if config.steps_per_dispatch:
        return config.steps_per_dispatch
    if jax.default_backend() == "cpu":
        return 1
    fed_bytes = max(1, feed.num_bytes(1) if feed.split is None else 1)
    return max(1, min(plan.log_every, _MAX_STEPS, _MAX_FED_BYTES // fed_bytes))


def compile_steps(
    experiment: Experiment,
    state: steps.TrainState,
    root_key: Key[Array, ""],
    feed: Feed,
    sizes: Iterable[int],
) -> dict[int, Callable]:
    """`steps.train_steps`, compiled for each number of steps in `sizes`.

    The functions take (state, feed.split, batches, root_key, lr_scale); the old state's
    memory is reused for the new one.

    Raises:
      UserError: the step does not fit into the device's memory.
    """
    whole = meshes.replicated(experiment.mesh)
    shardings = jax.tree.map(lambda x: x.sharding, state)
    jitted = jax.jit(
        functools.partial(steps.train_steps, train_step=experiment.train_step),
        out_shardings=(shardings, whole),
        donate_argnums=0,
        compiler_options=compiler_options(),
    )
    lr_scale = jax.ShapeDtypeStruct((), jnp.float32, sharding=whole)
    compiled = {}
    for size in sizes:
        arguments = (state, feed.split, feed.shapes(size), root_key, lr_scale)
        compiled[size] = jitted.lower(*arguments).compile()
        _require_memory(compiled[size], experiment, feed.num_bytes(size))
    return compiled


def _require_memory(compiled: Any, experiment: Experiment, fed_bytes: int) -> None:
    """Refuses a step that needs more memory than is free; XLA would only abort."""
    sizes, free = compiled.memory_analysis(), meshes.free_bytes(experiment.mesh)
    if sizes is None or free is None:
        return
    new = sizes.output_size_in_bytes - sizes.alias_size_in_bytes
    # Batches of some dispatches wait beside the one at work.
    waiting = NUM_WAITING * fed_bytes // experiment.mesh.size
    needed = sizes.temp_size_in_bytes + max(0, new) + waiting
    if needed > free:
        raise _out_of_memory(experiment, needed, free)


def _out_of_memory(experiment: Experiment, needed: int, free: int) -> UserError:
    config, num_devices = experiment.config, experiment.mesh.size
    share, slices = free / needed, experiment.num_slices
    smaller = int(config.batch_size * share) // (num_devices * slices)
    advice = ["a smaller model"]
    if smaller:
        advice = [f"config.batch_size={smaller * num_devices * slices}"]
    per_device = config.batch_size // num_devices
    finer = [n for n in range(slices + 1, per_device + 1) if per_device % n == 0]
    if fitting := [n for n in finer if n * share >= slices]:
        advice.append(f"config.optim.accumulate_steps={fitting[0]}")
    return UserError(
        f"A training step of {config.batch_size} images needs about "
        f"{needed / 1e9:,.2f} GB of free memory, but {free / 1e9:,.2f} GB are free; "
        f"try {' or '.join(advice)}, or smaller still."
    )


@contextlib.contextmanager
def explain_out_of_memory(config: ConfigDict) -> Iterator[None]:
    """Turns the device's own report of exhausted memory into a sentence.

    Raises:
      UserError: it was exhausted.
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        asked = re.search(r"allocate ([\d.]+ ?\w*)", str(error))
        raise UserError(
            f"The device's memory is exhausted{f' ({asked[0]})' if asked else ''} with "
            f"config.batch_size={config.batch_size}, config.optim.accumulate_steps="
            f"{config.optim.accumulate_steps} and config.eval_batch_size="
            f"{config.eval_batch_size}; halve the first (or double the second), or, if "
            "it happened in an evaluation, the third, and rerun the same command."
        ) from error
