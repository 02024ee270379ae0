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
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.launching.jobs import Job, Jobs
from experiments.launching.options import (
    add_arguments,
    data_settings,
    parse,
    refuse_place,
    small_settings,
)
from experiments.launching.study import run_study
from experiments.launching.summary import describe_job, describe_place, show_mean_std
from vit_jax.analysis.run_data import load_splits
from vit_jax.analysis.tables import markdown_table
from vit_jax.figures import compare, style
from vit_jax.files import write_file
from vit_jax.metrics import paired
from vit_jax.parallel.commands import make_parser, run_command
from vit_jax.runs.load import load_run
from vit_jax.runs.records import evaluation_curve

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
# The settings of `options.data_settings`.
_PLACE_OF_DATA = ("data.source", "data.dir", "data.download")


def make_jobs(
    jobs: Jobs, options: argparse.Namespace
) -> tuple[dict[str, Job], dict[Job, tuple[str, int]]]:
    """({arm: its helper's run}, {run: (arm, seed)})."""

    def job(name: str, variant: str, settings: Mapping[str, Any]) -> Job:
        config = f"{_CONFIG}:{variant}"
        small = small_settings(config, options.settings) if options.small else {}
        if small and variant not in ("pretrain", "mae"):
            small["data.val_per_class"] = 20
        if small and variant == "finetune":
            small["num_steps"] = None
            for i in (0, 1):  # Each stage has a length of its own.
                small[f"stages.{i}.num_epochs"] = 1
                small[f"stages.{i}.schedule.warmup"] = "2 steps"
            small.pop("schedule.warmup", None)
        return Job(name, config, {**small, **settings, **options.settings})

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


def compare_with_scratch(
    jobs: Jobs, arms: Mapping[Job, tuple[str, int]]
) -> dict[str, list[dict[str, Any]]]:
    """For each arm, McNemar's test against "scratch" for each seed that has both.

    A study that came by its archive has no checkpoints of the runs that were finished;
    their tests stay as they were.
    """
    right: dict[tuple[str, int], np.ndarray] = {}
    for job, place in arms.items():
        if jobs.is_finished(job) and jobs.folder(job).has_checkpoints():
            # The data may have moved since the run was trained.
            moved = {k: v for k, v in job.settings.items() if k in _PLACE_OF_DATA}
            run, splits = load_splits(load_run(jobs.folder(job).path), moved)
            test = splits["test"]
            predicted = run.predict(np.asarray(test.images)).argmax(1)
            right[place] = predicted == test.labels
    results = jobs.out / "results.json"
    before = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    planned = set(arms.values())
    tests: dict[str, list[dict[str, Any]]] = {
        arm: [t for t in rows if (arm, t["seed"]) in planned - right.keys()]
        for arm, rows in before.get("tests", {}).items()
    }
    for (arm, seed), mine in right.items():
        base = right.get(("scratch", seed))
        if arm != "scratch" and base is not None:
            result = {"seed": seed} | paired.mcnemar(mine, base)
            tests.setdefault(arm, []).append(result)
    return {
        arm: sorted(rows, key=lambda test: test["seed"]) for arm, rows in tests.items()
    }


def write_tables(
    jobs: Jobs, helpers: Mapping[str, Job], arms: Mapping[Job, tuple[str, int]]
) -> None:
    """table.md, results.json and accuracy.png of whatever is there."""
    lines, done = [], []
    for job, (arm, seed) in arms.items():
        line = describe_place(jobs, job, {"arm": arm, "seed": seed})
        lines.append(line)
        if jobs.is_finished(job):
            subset = jobs.folder(job).read("results").get("subset_test", {})
            line["subset_test_accuracy"] = subset.get("accuracy")
            done.append(line)
    tests = compare_with_scratch(jobs, arms)
    trained = {
        arm: describe_job(jobs, job)
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
            seconds, accuracy = evaluation_curve(records, clock)
            curves.setdefault(arm, []).append((seconds / 60, accuracy))
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
    options = parse(parser, arguments)
    given = [f"--config.{key}" for key in options.settings]
    refuse_place(options.data100, given, "--data100")
    jobs = Jobs(options.out, parallel=options.parallel)
    helpers, arms = make_jobs(jobs, options)
    scratch = {seed: job for job, (arm, seed) in arms.items() if arm == "scratch"}
    return run_study(
        "transfer",
        jobs,
        [*helpers.values(), *arms],
        options,
        needs={job: helpers[arm] for job, (arm, _) in arms.items() if arm in helpers},
        bases={job: scratch[seed] for job, (_, seed) in arms.items()},
        write=lambda: write_tables(jobs, helpers, arms),
    )


if __name__ == "__main__":
    run_command(main)
