"""Wall-clock times, and a description of the machine."""

import os
import platform
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike

from vit_jax.models import backend
from vit_jax.runs.environment import cpu_model


def seconds_of(run: Callable[[], Any]) -> float:
    """Duration of one call of `run`, which returns when its work is done."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def alternate(
    runs: Mapping[str, Callable[[], Any]], repeats: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Durations of each of `runs`, taken in turns, so that a drift touches all.

    Returns:
      Seconds by the clock, and CPU seconds of all threads of this process. The second
      is the steadier measure on a CPU that others use as well, except of threads that
      wait for each other in a loop, as PyTorch's do.
    """
    wall: dict[str, list[float]] = {name: [] for name in runs}
    busy: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.process_time()
            wall[name].append(seconds_of(run))
            busy[name].append(time.process_time() - start)
    return wall, busy


def describe(values: Sequence[float]) -> dict[str, Any]:
    """median, min, max, quartiles [25%, 75%] and the values themselves."""
    low, median, high = np.percentile(values, (25, 50, 75)).tolist()
    return {
        "median": median,
        "min": min(values),
        "max": max(values),
        "quartiles": [low, high],
        "values": list(values),
    }


def measure_peak_flops(dtype: DTypeLike) -> float:
    """FLOP/s of a large square matrix product on the device, the best of five."""
    size = 1024 if backend.platform() == "cpu" else 8192
    # The numbers are random, since some devices multiply ones faster.
    matrix = jax.random.normal(jax.random.key(0), (size, size), dtype)
    multiply = jax.jit(lambda x: x @ x)
    multiply(matrix).block_until_ready()
    seconds = min(
        seconds_of(lambda: multiply(matrix).block_until_ready()) for _ in range(5)
    )
    return 2 * size**3 / seconds


def peak_memory_bytes() -> int:
    """The device's highest use so far; on a CPU the process's highest resident set."""
    statistics = jax.devices()[0].memory_stats() or {}
    # Linux counts the resident set in KiB.
    resident = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return statistics.get("peak_bytes_in_use", resident)


def num_threads() -> int:
    """Number of CPUs that this process may use, as XLA does and PyTorch is told to."""
    return len(os.sched_getaffinity(0))


def describe_machine() -> dict[str, Any]:
    """Device, CPU, threads, versions and load average (of 1, 5 and 15 minutes).

    It also says whether compiled programs are kept, since a time to compile is then
    perhaps one to read them.
    """
    device = jax.devices()[0]
    versions = {"python": platform.python_version()}
    for package in ("jax", "jaxlib", "flax", "optax", "torch"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "platform": backend.platform(),
        "device": device.device_kind,
        "cpu": cpu_model(),
        "num_threads": num_threads(),
        "omp": {k: v for k, v in sorted(os.environ.items()) if k.startswith("OMP_")},
        "versions": versions,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "keeps_compiled_programs": bool(
            jax.config.jax_enable_compilation_cache
            and jax.config.jax_compilation_cache_dir
        ),
        "load_average": os.getloadavg(),
    }
