"""Whether a training that is interrupted and resumed has the bits of one that is not.

python -m experiments.first_lighting.resume --data=DIR --result=FILE

Each config is trained twice: once in one go, and once interrupted by SIGTERM and
resumed by a new process. XLA is asked for deterministic kernels
(--xla_gpu_deterministic_ops=true), and no process finds a program that another one has
compiled, so that the kernels are chosen anew in each (except with --small).
"""

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from experiments.benchmarking import timing
from experiments.first_lighting.session import parse_worker, write_result
from experiments.launching.jobs import Job, Jobs, as_child, run_environment
from experiments.launching.options import data_settings, small_settings
from vit_jax import data
from vit_jax.config import make_config
from vit_jax.errors import UserError
from vit_jax.parallel.commands import run_command
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.training.experiment import make_experiment

FLAG = "--xla_gpu_deterministic_ops=true"
# Two blocks compile fast and have every kind of kernel that seven have.
CONFIGS = {
    "vit": ("configs/vit_cifar.py", {"model.depth": 2}),
    "resnet": ("configs/resnet_cifar.py", {}),
}
# Long enough to be interrupted in the middle; a multiple of the dispatches' length.
SETTINGS = {
    "num_steps": 600, "batch_size": 256, "log_every": "10 steps",
    "eval_every": "300 steps", "checkpoint_every": "300 steps",
    "schedule.warmup": "20 steps",
}  # fmt: skip
_SMALL = {"num_steps": 30, "eval_every": "30 steps", "checkpoint_every": "30 steps",
          "log_every": "2 steps", "batch_size": 8,
          "augment.policy": "none"}  # fmt: skip
_POLL_SECONDS = 0.02


def make_job(name: str, kind: str, options: Any) -> Job:
    """The run of one of `CONFIGS`; `kind` is "whole" or "pieces"."""
    config, changes = CONFIGS[name]
    settings = {**data_settings(options.data), **changes, **SETTINGS}
    if options.small:
        settings |= small_settings(config) | _SMALL
    return Job(f"{name}-{kind}", config, settings)


def interrupt(jobs: Jobs, chosen: Sequence[Job]) -> dict[Job, int | None]:
    """Starts the runs together and signals each at a third of its steps.

    Returns:
      For each the step it saved; None where it ended before.
    """
    processes = {
        job: subprocess.Popen(
            as_child(jobs.command(job)), env=run_environment(len(chosen))
        )
        for job in chosen
    }
    waiting = dict(processes)
    while waiting:
        time.sleep(_POLL_SECONDS)
        for job, process in list(waiting.items()):
            steps = [record["step"] for record in jobs.folder(job).read_metrics()]
            if max(steps, default=0) >= job.settings["num_steps"] // 3:
                process.terminate()
            elif process.poll() is None:
                continue
            del waiting[job]
    for process in processes.values():
        process.wait()
    return {j: None if jobs.is_finished(j) else newest_step(jobs, j) for j in chosen}


def newest_step(jobs: Jobs, job: Job) -> int | None:
    """The step of the newest checkpoint."""
    with Checkpoints(jobs.folder(job).checkpoints, read_only=True) as checkpoints:
        return checkpoints.latest_step


def final_state(jobs: Jobs, job: Job) -> Any:
    """Parameters, averages and optimizer of the last step."""
    config = make_config(jobs.folder(job).read("config"))
    experiment = make_experiment(config, data.load(config.data))
    with Checkpoints(jobs.folder(job).checkpoints, read_only=True) as checkpoints:
        return checkpoints.restore("latest", experiment.state_shapes)[0]


def compare(jobs: Jobs, whole: Job, pieces: Job) -> dict[str, Any]:
    """Whether both runs ended with the same bits, and the largest difference."""
    differences = jax.tree.leaves(
        jax.tree.map(
            lambda a, b: float(np.abs(np.float64(a) - np.float64(b)).max(initial=0)),
            final_state(jobs, whole),
            final_state(jobs, pieces),
        )
    )
    # NaN is not equal to itself: a state that has one is no evidence.
    equal = all(difference == 0 for difference in differences)
    return {"same_bits": equal, "largest_difference": max(differences)}


def main(arguments: Sequence[str]) -> None:
    """Trains all of it and writes what came out."""
    options = parse_worker(__spec__.name, __doc__, arguments, config=False)
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}".strip()
    if not options.small:
        os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    # Runs of an earlier process, which may still be ending, have another folder.
    top = options.result.parent / "resume"
    shutil.rmtree(top, ignore_errors=True)
    # Both kinds of model take the same path, and tests only need to see that it works.
    names = [*CONFIGS][:1] if options.small else [*CONFIGS]
    made = {
        kind: [make_job(name, kind, options) for name in names]
        for kind in ("whole", "pieces")
    }
    jobs = Jobs(top / str(os.getpid()), parallel=2 * len(names))
    interrupted = interrupt(jobs, made["pieces"])
    if any(map(jobs.is_finished, made["pieces"])):
        raise UserError("A run ended before its signal, so that nothing was resumed.")
    all_jobs = made["whole"] + made["pieces"]
    jobs.launch(all_jobs)
    failed = {job.name: jobs.error(job) for job in all_jobs if jobs.error(job)}
    if failed or not all(map(jobs.is_finished, all_jobs)):
        raise UserError(f"A run is not finished: {failed or 'it was interrupted'}.")
    if None in interrupted.values():
        raise UserError("A run died before its signal, so that nothing was resumed.")
    result = {
        name: compare(jobs, whole, pieces)
        | {"interrupted_at": interrupted[pieces], "steps": whole.settings["num_steps"]}
        for name, whole, pieces in zip(names, *made.values(), strict=True)
    }
    result |= {"machine": timing.describe_machine(), "flag": FLAG}
    shutil.rmtree(top, ignore_errors=True)
    write_result(options.result, result)


if __name__ == "__main__":
    run_command(main)
