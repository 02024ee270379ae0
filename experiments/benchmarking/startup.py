"""The time from the command of a training to its first step.

`python -m experiments.benchmark --startup` starts `vit_jax.main` with the digits
config in a process of its own, first with an empty cache of compiled programs and then
with that cache filled. It waits for the first line of metrics.jsonl, which is written
some 20 milliseconds, two steps, after the step that it describes.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

from experiments.benchmarking import timing
from vit_jax.errors import UserError

_PAUSE_SECONDS = 0.02


def seconds_to_first_step(workdir: pathlib.Path, cache: pathlib.Path) -> float:
    """Wall-clock time until the first step of a fresh run is logged.

    Raises:
      UserError: the training ended before its first step.
    """
    command = [sys.executable, "-m", "vit_jax.main", "--config=configs/vit_digits.py"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    # JAX would prefer this variable to the cache folder.
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    process = subprocess.Popen(
        [*command, f"--workdir={workdir}", "--config.log_every=1 steps"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    start, metrics = time.perf_counter(), workdir / "metrics.jsonl"
    try:
        while not metrics.exists() or not metrics.stat().st_size:
            if process.poll() is not None:
                raise UserError(
                    f"{' '.join(command)} ended with status {process.returncode} "
                    "before its first step; run it to see why."
                )
            time.sleep(_PAUSE_SECONDS)
        return time.perf_counter() - start
    finally:
        process.kill()
        process.wait()


def measure(repeats: int) -> dict[str, Any]:
    """Prints and returns the machine and the seconds of a first and of later starts.

    Args:
      repeats: number of starts with a filled cache.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        cold, *warm = (
            seconds_to_first_step(path / f"run{i}", path / "cache")
            for i in range(1 + repeats)
        )
    result = timing.describe_machine() | {"cold_seconds": cold, "warm_seconds": warm}
    print(json.dumps(result, indent=1))
    return result
