"""What helps a small ViT that has few images: transfer, a teacher, or masked images.

python -m experiments.transfer --data=DIR --data100=DIR --out=DIR [--seeds=3]

Every arm trains the ViT of configs/vit_small_data.py on the same 2,000 CIFAR-10 images
of each class, chooses its epoch on 500 others, and scores the test split once:

scratch        nothing else
cifar100       starts from a training on CIFAR-100, in two stages
distilled      learns from a ResNet that was trained on the same subset
masked         starts from masked autoencoding of all training images, without labels

The three helpers (the training on CIFAR-100, the ResNet, the autoencoder) are trained
once, and the arms with each seed. OUT gets table.md, results.json, accuracy.png and
transfer.tar.gz. The p-values are McNemar's, of the arms' predictions with the same
seed against those from scratch. Exit status: 0 all done, 1 a run failed, 75 runs are
left (the same command goes on).
"""

import argparse
import dataclasses
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.launching.jobs import Job, Jobs
from experiments.launching.options import (
    add_arguments,
    data_settings,
    parse_overrides,
    report_left,
    small_settings,
)
from experiments.launching.summary import describe_run, show_mean_std
from vit_jax import data
from vit_jax.analysis.tables import markdown_table
from vit_jax.figures import compare, style
from vit_jax.files import write_file
from vit_jax.metrics import paired
from vit_jax.parallel.commands import make_parser, run_command
from vit_jax.runs.load import load_run
from vit_jax.training.progress import say

_CONFIG = "configs/vit_small_data.py"
# The helpers, each trained once, by the arm that needs it.
HELPERS = {"cifar100": "pretrain", "masked": "mae", "distilled": "teacher"}
# Each arm's config variant, and the setting that names its helper's folder.
ARMS = {
    "scratch": ("scratch", None),
    "cifar100": ("finetune", "pretrained.path"),
    "masked": ("finetune", "pretrained.path"),
    "distilled": ("distilled", "distill.teacher"),
}


def make_jobs(
    jobs: Jobs, options: argparse.Namespace, overrides: Mapping[str, Any]
) -> tuple[dict[str, Job], dict[Job, tuple[str, int]]]:
    """({arm: its helper's run}, {run: (arm, seed)})."""

    def job(name: str, variant: str, settings: Mapping[str, Any]) -> Job:
        config = f"{_CONFIG}:{variant}"
        small = small_settings(config) if options.small else {}
        if small and variant != "pretrain":
            small |= {"data.val_per_class": 20} if variant != "mae" else {}
        if variant == "finetune":
            for key in ("num_steps", "schedule.warmup"):
                if key in small:
                    small |= {f"stages.{i}.{key}": small[key] for i in (0, 1)}
        return Job(name, config, {**small, **settings, **overrides})

    cifar10 = data_settings(options.data)
    cifar100 = data_settings(options.data100) | {"data.name": "cifar100"}
    helpers = {
        arm: job(variant, variant, cifar100 if arm == "cifar100" else cifar10)
        for arm, variant in HELPERS.items()
    }
    arms = {}
    for seed in range(options.seeds):
        for arm, (variant, key) in ARMS.items():
            settings = cifar10 | {"seed": seed}
            if key:
                settings[key] = str(jobs.folder(helpers[arm]).path)
            arms[job(f"{arm}-s{seed}", variant, settings)] = arm, seed
    return helpers, arms


def make_line(jobs: Jobs, job: Job, arm: str, seed: int) -> dict[str, Any]:
    """One run's scores and time; without them where it is not finished."""
    line = {"arm": arm, "seed": seed, "error": jobs.error(job)}
    if not jobs.is_finished(job):
        return line
    results = jobs.folder(job).read("results")
    return (
        line
        | {
            "test_accuracy": results["test"]["accuracy"],
            "subset_test_accuracy": results["subset_test"]["accuracy"],
        }
        | describe_run(jobs, job)
    )


def compare_with_scratch(
    jobs: Jobs, arms: Mapping[Job, tuple[str, int]]
) -> dict[str, list[dict[str, Any]]]:
    """For each arm, McNemar's test against "scratch" for each seed that has both."""
    finished = {place: job for job, place in arms.items() if jobs.is_finished(job)}
    right: dict[tuple[str, int], np.ndarray] = {}
    for place, job in finished.items():
        run = load_run(jobs.folder(job).path)
        test = data.load(run.config.data)["test"]
        predicted = run.predict(np.asarray(test.images)).argmax(1)
        right[place] = predicted == test.labels
    tests: dict[str, list[dict[str, Any]]] = {}
    for (arm, seed), mine in right.items():
        base = right.get(("scratch", seed))
        if arm != "scratch" and base is not None:
            result = dataclasses.asdict(paired.mcnemar(mine, base))
            tests.setdefault(arm, []).append({"seed": seed} | result)
    return tests


def write_tables(
    jobs: Jobs, helpers: Mapping[str, Job], arms: Mapping[Job, tuple[str, int]]
) -> None:
    """table.md, results.json and accuracy.png of whatever is there."""
    lines = [make_line(jobs, job, *place) for job, place in arms.items()]
    done = [line for line in lines if "test_accuracy" in line]
    tests = compare_with_scratch(jobs, arms)
    trained = {
        arm: describe_run(jobs, job)
        for arm, job in helpers.items()
        if jobs.is_finished(job)
    }
    on_cpu = all(line["cpu_seconds"] for line in (*done, *trained.values()))
    clock, unit = ("cpu_seconds", "CPU minutes") if on_cpu else ("train_seconds", "min")
    cells = []
    for arm in ARMS:
        own = [line for line in done if line["arm"] == arm]
        p_values = ", ".join(f"{test['p_value']:.2g}" for test in tests.get(arm, []))
        cells.append(
            [
                arm,
                show_mean_std(line["test_accuracy"] for line in own),
                show_mean_std(line["subset_test_accuracy"] for line in own),
                p_values or "–",
                show_mean_std((line[clock] for line in own), 1 / 60, ".1f"),
                f"{trained[arm][clock] / 60:.1f}" if arm in trained else "–",
            ]
        )
    head = ["arm", "test accuracy (%)", "subset test (%)", "p against scratch"]
    head += [f"training ({unit})", f"its helper's training ({unit})"]
    text = f"# Few images\n\n{len(done)} of {len(lines)} runs.\n\n"
    write_file(jobs.out / "table.md", text + markdown_table(head, cells) + "\n")
    content = {"runs": lines, "tests": tests, "helpers": trained}
    write_file(jobs.out / "results.json", json.dumps(content, indent=1) + "\n")
    if curves := _curves(jobs, arms, "cpu_seconds" if on_cpu else "seconds"):
        figure = compare.accuracy_over_time(curves, unit)
        style.save(figure, jobs.out / "accuracy.png")


def _curves(
    jobs: Jobs, arms: Mapping[Job, tuple[str, int]], clock: str
) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """For each arm, (minutes, validation accuracy) of each finished run."""
    curves: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for job, (arm, _) in arms.items():
        if jobs.is_finished(job):
            records = jobs.folder(job).read_metrics()
            points = [
                (r[clock] / 60, r["accuracy"]) for r in records if r["split"] == "val"
            ]
            x, y = np.array(points, float).reshape(-1, 2).T
            curves.setdefault(arm, []).append((x, y))
    return curves


def main(arguments: Sequence[str]) -> int:
    """Trains what is not finished and writes the table."""
    parser = make_parser(
        "experiments.transfer", __doc__, "--config.group.name=value changes every run."
    )
    add_arguments(parser, out="runs/transfer")
    parser.add_argument(
        "--data100", metavar="DIR", help="official CIFAR-100 files; else TFDS"
    )
    options, overrides = parser.parse_known_args(arguments)
    deadline = time.monotonic() + options.time_limit_seconds
    jobs = Jobs(options.out, parallel=options.parallel)
    helpers, arms = make_jobs(jobs, options, parse_overrides(overrides))
    if options.dry_run:
        for job in (*helpers.values(), *arms):
            print(shlex.join(jobs.command(job)))
        return 0
    left = jobs.launch([*helpers.values()], deadline=deadline, retry=options.retry)
    # The arms need what the helpers have learned. Where helpers are left, a signal or
    # the time limit has ended this command.
    ready = [
        job
        for job, (arm, _) in arms.items()
        if not left and (arm not in helpers or jobs.is_finished(helpers[arm]))
    ]
    left += jobs.launch(ready, deadline=deadline, retry=options.retry) if ready else []
    left += [job for job in arms if job not in ready]
    write_tables(jobs, helpers, arms)
    say(f"{jobs.out / 'table.md'} and {jobs.pack('transfer')}")
    return report_left(jobs, [*helpers.values(), *arms], left)


if __name__ == "__main__":
    run_command(main)
