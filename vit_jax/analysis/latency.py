"""The time of a forward pass, with its spread and what else the machine was doing."""

import os
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import UInt8

from vit_jax.analysis.tables import plain
from vit_jax.runs.run import Run

BATCH_SIZES = (1, 128)
# Largest difference of the quartiles, divided by the median, for which a median is
# stated. On a quiet machine it is a few per cent.
MAX_SPREAD = 0.5


def measure(
    forward: Callable[[Any], Any],
    batch: Any,
    *,
    max_repeats: int = 100,
    max_seconds: float = 5.0,
) -> dict[str, float | int | None]:
    """Wall-clock time of `forward` on a batch, after three calls to warm up.

    It is called `max_repeats` times, or until `max_seconds` are over, but at least ten
    times. Each call is waited for.

    Returns:
      milliseconds_per_image (median; None if the quartiles are further apart than
      `MAX_SPREAD` times the median), lower_quartile, upper_quartile, num_repeats.
    """
    for _ in range(3):
        jax.block_until_ready(forward(batch))
    times: list[float] = []
    while len(times) < 10 or (len(times) < max_repeats and sum(times) < max_seconds):
        start = time.perf_counter()
        jax.block_until_ready(forward(batch))
        times.append(time.perf_counter() - start)
    milliseconds = 1000 * np.array(times) / len(batch)
    low, median, high = (float(q) for q in np.quantile(milliseconds, (0.25, 0.5, 0.75)))
    return {
        "milliseconds_per_image": median if high - low <= MAX_SPREAD * median else None,
        "lower_quartile": low,
        "upper_quartile": high,
        "num_repeats": len(times),
    }


def describe(
    run: Run,
    eval_step: Callable[[Any, Any], Any],
    images: UInt8[np.ndarray, "n height width channels"],
) -> dict[str, Any]:
    """Time per image at each of `BATCH_SIZES`, images and variables on the device.

    Returns:
      device (its kind), dtype (of the computation), num_cores of the machine,
      other_cores (how many of them other programs kept busy meanwhile; None where the
      system does not say), and batch_1, batch_128: see `measure`.
    """
    device = jax.devices()[0]
    variables = jax.device_put(run.variables, device)
    described: dict[str, Any] = {
        "device": device.device_kind,
        "dtype": np.dtype(run.model.dtype).name,
        "num_cores": os.cpu_count(),
    }
    start, busy = time.perf_counter(), _busy_seconds_of_others()
    for size in BATCH_SIZES:
        batch = jax.device_put(images[np.arange(size) % len(images)], device)
        described[f"batch_{size}"] = measure(
            lambda batch: eval_step(variables, batch), batch
        )
    others = None
    if busy is not None:
        seconds = time.perf_counter() - start
        others = max(0.0, (_busy_seconds_of_others() - busy) / seconds)
    return described | {"other_cores": others}


def _busy_seconds_of_others() -> float | None:
    """CPU time that all processes but this one have had, on Linux."""
    statistics = pathlib.Path("/proc/stat")
    if not statistics.exists():
        return None
    # user, nice and system; idle and waiting times follow.
    ticks = sum(map(int, statistics.read_text().split("\n")[0].split()[1:4]))
    own = os.times()
    return ticks / os.sysconf("SC_CLK_TCK") - own.user - own.system


def to_rows(latency: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(how it was timed, median, quartiles) of each of `BATCH_SIZES`, as texts."""
    rows = []
    for size in BATCH_SIZES:
        one = latency[f"batch_{size}"]
        how = "one image at a time" if size == 1 else f"in batches of {size}"
        median, n = one["milliseconds_per_image"], one["num_repeats"]
        ends = (one["lower_quartile"], one["upper_quartile"])
        quartiles = " to ".join(plain(value, ".3g") for value in ends) + " ms"
        if median is None:
            why = f"half of {n} timings lie outside {quartiles} per image; repeat it on"
            rows.append((how, "not stated", f"{why} a quiet machine"))
        else:
            spread = f"median of {n}; quartiles {quartiles}"
            rows.append((how, f"{plain(median, '.3g')} ms per image", spread))
    return rows


def load_text(latency: Mapping[str, Any]) -> str:
    """Device, type of the computation, and the load of the machine, in a line."""
    others = latency["other_cores"]
    load = (
        "what other programs did is not known"
        if others is None
        else f"other programs used {others:.1f} of {latency['num_cores']} CPU cores"
    )
    return f"on {latency['device']} in {latency['dtype']}; {load} meanwhile"
