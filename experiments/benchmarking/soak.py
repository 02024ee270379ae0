"""What a long training holds over time: memory, threads and open files.

`python -m experiments.benchmark --soak` trains a tiny ViT on the digits in a process of
its own, for 20,000 steps with 100 evaluations and 40 checkpoints, and reads what Linux
says of that process in /proc. What grows from step to step, from evaluation to
evaluation or from checkpoint to checkpoint is seen there, long before a real training
ends by it.
"""

import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from experiments.benchmarking import timing
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder

SETTINGS = (
    "--config=configs/vit_digits.py", "--config.num_steps=20000",
    "--config.eval_every=200 steps", "--config.checkpoint_every=500 steps",
    "--config.log_every=100 steps", "--config.batch_size=16",
    "--config.model.depth=1", "--config.model.width=16",
)  # fmt: skip
SECONDS_BETWEEN_SAMPLES = 1.0
HELD = ("resident_bytes", "allocated_bytes", "threads", "open_files")


def held_by(pid: int) -> dict[str, int] | None:
    """What a process holds now, by Linux's /proc; None once it has ended.

    Returns:
      `resident_bytes` in memory, of which `allocated_bytes` are of no file; `threads`;
      `open_files`, which counts sockets and pipes as well.
    """
    process = pathlib.Path(f"/proc/{pid}")
    try:
        lines = (process / "status").read_text().splitlines()
        open_files = len(os.listdir(process / "fd"))
    except OSError:
        return None
    status = dict(line.split(":", 1) for line in lines)
    if "VmRSS" not in status:  # ended, and nobody has waited for it
        return None
    return {
        "resident_bytes": 1024 * int(status["VmRSS"].split()[0]),
        "allocated_bytes": 1024 * int(status["RssAnon"].split()[0]),
        "threads": int(status["Threads"]),
        "open_files": open_files,
    }


def quarters(samples: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """The median of each number of `HELD` in each quarter of the samples."""
    size = len(samples) // 4
    parts = [samples[i * size : (i + 1) * size] for i in range(4)]
    return {
        name: [statistics.median(s[name] for s in part) for part in parts]
        for name in HELD
    }


def measure(overrides: Sequence[str]) -> dict[str, Any]:
    """Prints and returns the machine, what was held over time, and its quarters.

    Args:
      overrides: settings such as `--config.num_steps=1000`, after `SETTINGS`.

    Raises:
      UserError: the training failed, or was too short for four samples.
    """
    command = ["-m", "vit_jax.main", *SETTINGS, *overrides]
    with (
        tempfile.TemporaryDirectory() as workdir,
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
    ):
        process = subprocess.Popen(
            [sys.executable, *command, f"--workdir={workdir}"],
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        start, samples = time.monotonic(), []
        try:
            while process.poll() is None:
                time.sleep(SECONDS_BETWEEN_SAMPLES)
                records = RunFolder(workdir).read_metrics()
                held = held_by(process.pid)
                if records and held:  # it has compiled and not ended
                    seconds = round(time.monotonic() - start, 1)
                    step = records[-1]["step"]
                    samples.append({"seconds": seconds, "step": step, **held})
        finally:
            process.kill()
            status = process.wait()
        errors.seek(0)
        reason = errors.read().strip().splitlines()[-1:]
    if status:
        raise UserError(
            f"The training of --soak ended with status {status}: {''.join(reason)}"
        )
    if len(samples) < 4:
        raise UserError(
            f"The training of --soak ended after {len(samples)} samples, but four are "
            "needed; give a larger --config.num_steps."
        )
    result = timing.describe_machine() | {
        "training": shlex.join(["python", *command]),
        "medians_of_quarters": quarters(samples),
        "samples": samples,
    }
    print(json.dumps(result["medians_of_quarters"], indent=1))
    return result
