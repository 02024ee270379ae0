"""How long a training takes from its command to its first step.

    python -m experiments.benchmark_startup --out=experiments/benchmarks

Starts `vit_jax.main` with the digits config as a process of its own, first with an
empty cache of compiled programs and then with that cache filled. Waits for the first
line of metrics.jsonl, which is written two steps late: some 20 milliseconds.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from experiments import timing
from vit_jax.parallel.commands import make_parser

_PAUSE_SECONDS = 0.02


def seconds_to_first_step(workdir: pathlib.Path, cache: pathlib.Path) -> float:
    """Wall-clock time until the first step of a fresh run is logged."""
    command = [sys.executable, "-m", "vit_jax.main", "--config=configs/vit_digits.py"]
    process = subprocess.Popen(
        [*command, f"--workdir={workdir}", "--config.log_every=1 steps"],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    start, metrics = time.perf_counter(), workdir / "metrics.jsonl"
    try:
        while not metrics.exists() or not metrics.stat().st_size:
            if process.poll() is not None:
                sys.exit(f"{' '.join(command)} ended with {process.returncode}")
            time.sleep(_PAUSE_SECONDS)
        return time.perf_counter() - start
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Measures and prints."""
    parser = make_parser("experiments.benchmark_startup", __doc__)
    parser.add_argument(
        "--repeats", type=int, default=3, help="starts with a full cache"
    )
    parser.add_argument("--out", help="folder for startup_PLATFORM.json")
    options = parser.parse_args()
    os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
    result = timing.describe_machine()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        starts = [
            seconds_to_first_step(path / f"run{i}", path / "cache")
            for i in range(1 + options.repeats)
        ]
    result |= {"cold_seconds": starts[0], "warm_seconds": starts[1:]}
    print(json.dumps(result, indent=1))
    if options.out:
        out = pathlib.Path(options.out)
        out.mkdir(parents=True, exist_ok=True)
        file = out / f"startup_{result['platform']}.json"
        file.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
