"""What came out: table.md, results.json and accuracy.png."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.launching.jobs import Job, Jobs
from experiments.launching.summary import describe_job, describe_place, show_mean_std
from experiments.transferring.arms import ARMS
from vit_jax import data
from vit_jax.analysis.tables import markdown_table
from vit_jax.figures import compare, style
from vit_jax.files import write_file
from vit_jax.metrics import paired
from vit_jax.runs.load import load_run
from vit_jax.runs.records import evaluations


def make_line(jobs: Jobs, job: Job, arm: str, seed: int) -> dict[str, Any]:
    """One run's scores and time; without them where it is not finished."""
    line = describe_place(jobs, job, {"arm": arm, "seed": seed})
    if jobs.is_finished(job):
        subset = jobs.folder(job).read("results")["subset_test"]
        line["subset_test_accuracy"] = subset["accuracy"]
    return line


def compare_with_scratch(
    jobs: Jobs, arms: Mapping[Job, tuple[str, int]]
) -> dict[str, list[dict[str, Any]]]:
    """For each arm, McNemar's test against "scratch" for each seed that has both.

    A study that came by its archive has no checkpoints of the runs that were finished;
    their tests stay as they were.
    """
    finished = {
        place: job
        for job, place in arms.items()
        if jobs.is_finished(job) and jobs.folder(job).has_checkpoints()
    }
    right: dict[tuple[str, int], np.ndarray] = {}
    for place, job in finished.items():
        run = load_run(jobs.folder(job).path)
        test = data.load(run.config.data)["test"]
        predicted = run.predict(np.asarray(test.images)).argmax(1)
        right[place] = predicted == test.labels
    results = jobs.out / "results.json"
    before = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    tests: dict[str, list[dict[str, Any]]] = {
        arm: [test for test in rows if (arm, test["seed"]) not in right]
        for arm, rows in before.get("tests", {}).items()
    }
    for (arm, seed), mine in right.items():
        base = right.get(("scratch", seed))
        if arm != "scratch" and base is not None:
            result = {"seed": seed} | paired.mcnemar(mine, base)
            tests.setdefault(arm, []).append(result)
    return tests


def write_tables(
    jobs: Jobs, helpers: Mapping[str, Job], arms: Mapping[Job, tuple[str, int]]
) -> None:
    """table.md, results.json and accuracy.png of whatever is there."""
    lines = [make_line(jobs, job, *place) for job, place in arms.items()]
    done = [line for line in lines if "test_accuracy" in line]
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
            records = evaluations(jobs.folder(job).read_metrics())
            points = [(r[clock] / 60, r["accuracy"]) for r in records]
            x, y = np.array(points, float).reshape(-1, 2).T
            curves.setdefault(arm, []).append((x, y))
    return curves
