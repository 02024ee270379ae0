"""What one forward pass costs: parameters, operations, time."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import UInt8

from vit_jax import models
from vit_jax.runs.load import Run

BATCH_SIZES = (1, 128)


def measure_latency(
    forward: Callable[[Any], Any],
    batch: Any,
    *,
    max_repeats: int = 100,
    max_seconds: float = 5.0,
) -> dict[str, float | int]:
    """Median wall-clock time of `forward` on a batch, after three calls to warm up.

    It is called `max_repeats` times, or until `max_seconds` are over, but at least five
    times. Each call is waited for.

    Returns:
      milliseconds_per_image, num_repeats.
    """
    for _ in range(3):
        jax.block_until_ready(forward(batch))
    times: list[float] = []
    while len(times) < 5 or (len(times) < max_repeats and sum(times) < max_seconds):
        start = time.perf_counter()
        jax.block_until_ready(forward(batch))
        times.append(time.perf_counter() - start)
    return {
        "milliseconds_per_image": 1000 * float(np.median(times)) / len(batch),
        "num_repeats": len(times),
    }


def describe_cost(run: Run) -> dict[str, int]:
    """num_params, and flops of one forward pass of one image, counted from the shapes.

    A multiply-accumulate is two operations; `models.count_macs` says what is counted.
    """
    return {
        "num_params": models.count_params(run.variables["params"]),
        "flops": 2 * models.count_macs(run.model, run.input_shape),
    }


def describe_latency(
    run: Run,
    eval_step: Callable[[Any, Any], Any],
    images: UInt8[np.ndarray, "n height width channels"],
) -> dict[str, Any]:
    """Time per image at each of `BATCH_SIZES`, images and variables on the device.

    Returns:
      device (its kind), dtype (of the computation), and batch_1, batch_128: see
      `measure_latency`.
    """
    device = jax.devices()[0]
    variables = jax.device_put(run.variables, device)
    described: dict[str, Any] = {
        "device": device.device_kind,
        "dtype": np.dtype(run.model.dtype).name,
    }
    for size in BATCH_SIZES:
        batch = jax.device_put(images[np.arange(size) % len(images)], device)
        described[f"batch_{size}"] = measure_latency(
            lambda batch: eval_step(variables, batch), batch
        )
    return described
