"""What came out: table.md, table.csv, results.json, and reports of single runs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.launching.jobs import Job, Jobs
from experiments.launching.options import run_until
from experiments.launching.summary import describe_place, show_mean_std
from experiments.reproducing.rows import EXTRA_ROWS, PROTOCOLS, ROWS
from vit_jax.analysis.tables import markdown_table, write_csv
from vit_jax.config import load_config_file
from vit_jax.files import write_file
from vit_jax.metrics.paired import mean_and_std
from vit_jax.runs.records import evaluations
from vit_jax.training.progress import say


def make_line(jobs: Jobs, job: Job, row: str, protocol: str) -> dict[str, Any]:
    """One line of table.csv; without numbers where the run is not finished."""
    place = {"row": row, "protocol": protocol, "config": job.config}
    line = describe_place(jobs, job, place | {"seed": job.settings["seed"]})
    if jobs.is_finished(job):
        # Elsewhere the last epoch's test accuracy is not measured, or is the result.
        line["last_accuracy"] = None
        if line["selected_on"] == "test":
            evaluated = evaluations(jobs.folder(job).read_metrics())
            line["last_accuracy"] = evaluated[-1]["accuracy"]
    return line


def make_table(runs: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Markdown, and the same numbers row by row."""
    rows, cells = [], []
    for name in dict.fromkeys(run["row"] for run in runs):
        row = (ROWS | EXTRA_ROWS)[name]
        config, reported = row.config, row.reported
        done = [r for r in runs if r["row"] == name and "test_accuracy" in r]
        by = {p: [r for r in done if r["protocol"] == p] for p in PROTOCOLS}
        original, held_out = ([r["test_accuracy"] for r in by[p]] for p in PROTOCOLS)
        won = [
            r["test_accuracy"] - r["last_accuracy"]
            for r in by["original"]
            if r["last_accuracy"] is not None
        ]
        difference = None
        if reported and original:
            difference = 100 * mean_and_std(original)[0] - reported
        rows.append(
            {
                "row": name, "config": config, "reported": reported,
                "selects_on": row.selects_on,
                "original": _summary(original), "holdout": _summary(held_out),
                "won_by_selection": _summary(won), "difference": difference,
                "falls_short": difference is not None and difference < 0,
                "failed": sum(r["row"] == name and bool(r["error"]) for r in runs),
            }
        )  # fmt: skip
        cells.append(
            [
                f"`{config.removeprefix('configs/')}`",
                f"{reported:.2f}" if reported else "–",
                "best on test" if row.selects_on == "test" else "last epoch",
                show_mean_std(original),
                _show_difference(difference),
                show_mean_std(held_out),
                show_mean_std(won),
                show_mean_std((r["train_seconds"] for r in done), 1),
                show_mean_std((r["images_per_second"] for r in done), 1e-3),
            ]
        )
    head = ["config", "reported (%)", "its protocol", "ours, by it (%)", "difference"]
    head += ["chosen on hold-out (%)", "won by choosing on test (points)"]
    head += ["training (s)", "1000 images/s"]
    return markdown_table(head, cells), rows


def _summary(values: Sequence[float]) -> dict[str, float | None] | None:
    if not values:
        return None
    mean, std = mean_and_std(values)
    # JSON has no NaN.
    return {"mean": mean, "std": std if len(values) > 1 else None, "n": len(values)}


def _show_difference(points: float | None) -> str:
    if points is None:
        return "–"
    return f"{points:+.2f}" + (" **short**" if points < 0 else "")


def write_tables(jobs: Jobs, planned: Mapping[Job, tuple[str, str]]) -> None:
    """Writes table.md, table.csv and results.json of the finished runs."""
    runs = [make_line(jobs, job, *place) for job, place in planned.items()]
    markdown, rows = make_table(runs)
    machines = sorted(
        {
            f"{run['device']}, Python {run['python']}, JAX {run['jax']}, Flax "
            f"{run['flax']}, Optax {run['optax']}, {run['parallel']} run(s) at a time"
            for run in runs
            if "device" in run
        }
    )
    done = sum("test_accuracy" in run for run in runs)
    failed = [
        f"* {r['row']}, seed {r['seed']}: {r['error']}" for r in runs if r["error"]
    ]
    parts = [
        "# Four studies again",
        f"Test accuracy, mean ± standard deviation (number of seeds); {done} of "
        f"{len(runs)} runs. Measured on: {'; '.join(machines) or 'nothing yet'}.",
        markdown,
        "Difference: ours by the study's own protocol minus reported. Won by choosing "
        "on test: of the runs that do so, the best epoch minus the last. Training "
        "seconds leave out compilation, evaluation and checkpoints.",
    ]
    if failed:
        parts += ["## Failed", "\n".join(failed)]
    write_file(jobs.out / "table.md", "\n\n".join(parts) + "\n")
    content = json.dumps({"rows": rows, "runs": runs}, indent=1) + "\n"
    write_file(jobs.out / "results.json", content)
    write_csv(jobs.out / "table.csv", runs)


def write_reports(
    jobs: Jobs, planned: Mapping[Job, tuple[str, str]], deadline: float
) -> None:
    """`evaluate --report` of each row's first seed on the hold-out, once each."""
    for job, (_, protocol) in planned.items():
        path = jobs.folder(job).path
        first = load_config_file(job.config).seed
        is_meant = protocol == "holdout" and job.settings["seed"] == first
        if not is_meant or not jobs.is_finished(job) or (path / "report.html").exists():
            continue
        status = run_until(
            deadline, "vit_jax.evaluate", f"--workdir={path}", "--report"
        )
        if status != 0:
            reason = "no time was left" if status is None else f"exit status {status}"
            say(f"no report of {job.name}: {reason}")
