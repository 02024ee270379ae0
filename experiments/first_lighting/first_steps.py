"""A config's first steps on this machine.

python -m experiments.first_lighting.first_steps --config=FILE --data=DIR --result=FILE

The first 20 steps are those of a real run, on the training images and with the config's
augmentation. They are computed twice from the same state, to see whether the bits are
the same; the rounds of 20 steps after them are timed.
"""

import collections
import functools
import re
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from experiments.benchmarking import timing
from experiments.benchmarking.jax_step import JaxStep
from experiments.first_lighting.session import parse_worker, write_result
from experiments.launching.jobs import Job
from experiments.launching.options import data_settings, small_settings
from vit_jax import data
from vit_jax.models import backend
from vit_jax.parallel.commands import run_command
from vit_jax.training import steps

_STEPS = 20
_ROUNDS, _SMALL_ROUNDS = 10, 1
_COMPILED = "/jax/core/compile/backend_compile_duration"
_PRODUCT = re.compile(
    r"stablehlo\.(dot_general|convolution)\b.*: "
    r"\(tensor<(?:\d+x)*(\w+)>, tensor<(?:\d+x)*(\w+)>\) -> tensor<(?:\d+x)*(\w+)>"
)


def run_round(step: JaxStep) -> tuple[np.ndarray, float]:
    """Losses of the next 20 steps, and the seconds that they took together."""
    losses, start = [], time.perf_counter()
    for _ in range(_STEPS // step.steps_per_dispatch):
        step()
        losses.append(step.metrics["loss"])
    seconds = time.perf_counter() - start
    return np.concatenate(jax.device_get(losses)), seconds


def count_products(step: JaxStep) -> dict[str, int]:
    """Matrix products and convolutions of one train step, by the dtypes they have.

    Returns:
      {"bf16 x bf16 -> f32": 12}: how often they stand in the program's text, before
      XLA's optimisations; blocks of equal shapes may share one.
    """
    experiment = step.experiment
    train = functools.partial(steps.train_steps, train_step=experiment.train_step)
    inputs = (step.state, step.pipeline.split, step.pipeline.shapes(1))
    key, scale = experiment.root_key, np.float32(1)
    text = jax.jit(train).lower(*inputs, key, scale, experiment.teacher).as_text()
    found = (
        f"{left} x {right} -> {out}" for _, left, right, out in _PRODUCT.findall(text)
    )
    return dict(collections.Counter(found).most_common())


def measure(config: ConfigDict, num_rounds: int) -> dict[str, Any]:
    """Trains 20 steps twice and then `num_rounds` times, and describes all of it.

    Returns:
      The machine, and losses of the first 20 steps, mean_losses of each round, whether
      they fall and are finite; same_bits: whether both first rounds ended with the same
      state; compilations during the timed rounds; the platforms of the state; products
      by dtype; seconds of a step, and the times before the first one: init_seconds are
      of the experiment, the initial state and all programs, and compile_seconds are
      those of compiling the train step.
    """
    start = time.perf_counter()
    train = data.load(config.data)["train"]
    loaded = time.perf_counter()
    step = JaxStep(config, train, min(_STEPS, backend.max_steps_per_dispatch()))
    init_seconds = time.perf_counter() - loaded
    first, _ = run_round(step)
    state = jax.device_get(step.state)
    step.restart()
    again, _ = run_round(step)
    equal = jax.tree.map(np.array_equal, state, jax.device_get(step.state))
    compilations: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compilations.append(event)
    )
    means, seconds = [float(first.mean())], []
    for _ in range(num_rounds):
        losses, duration = run_round(step)
        means.append(float(losses.mean()))
        seconds.append(duration / _STEPS)
    num_compilations = compilations.count(_COMPILED)
    resolved = step.experiment.config
    described = timing.describe(seconds)
    return timing.describe_machine() | {
        "batch_size": resolved.batch_size,
        "dtype": resolved.model.dtype,
        "products": count_products(step),
        "platforms": sorted(
            {d.platform for leaf in jax.tree.leaves(step.state) for d in leaf.devices()}
        ),
        "losses": first.tolist(),
        "mean_losses": means,
        "finite": bool(np.isfinite(means).all()),
        "falls": means[-1] < means[0],
        "same_bits": all(jax.tree.leaves(equal)) and np.array_equal(first, again),
        "compilations": num_compilations,
        "loading_seconds": loaded - start,
        "init_seconds": init_seconds,
        "compile_seconds": step.compile_seconds,
        "step_seconds": described,
        "images_per_second": resolved.batch_size / described["median"],
        "peak_memory_bytes": timing.peak_memory_bytes(),
    }


def main(arguments: Sequence[str]) -> None:
    """Measures the config and writes the result."""
    options = parse_worker(__spec__.name, __doc__, arguments, config=True)
    settings = data_settings(options.data)
    if options.small:
        # As many steps as are done here, so that the rate does not reach zero.
        settings |= small_settings(options.config)
        settings |= {"num_steps": 60, "batch_size": 8, "augment.policy": "none"}
    config = Job("first steps", options.config, settings).load_config()
    result = measure(config, _SMALL_ROUNDS if options.small else _ROUNDS)
    write_result(options.result, {"config": options.config} | result)


if __name__ == "__main__":
    run_command(main)
