"""Repeats four studies that train from scratch, each by the protocol that it used.

python -m experiments.reproduce --data=DIR --out=DIR [--seeds=3] [--parallel=4]
python -m experiments.reproduce --data=DIR --out=DIR --only='vit_192x9,vit_256x6*'

Each row of the table is a config under configs/, trained in two protocols. "original"
is its study's own, with all 50,000 images to train on: either the epoch is chosen by
its accuracy on the test split, or nothing is chosen and the last epoch is scored.
"holdout" holds 5,000 images out, chooses on those, and scores the test split once.

The gain by choosing on the test split is the accuracy of the best epoch minus that of
the last one, in the runs that choose so. The two protocols differ by more than that,
since "holdout" trains on a tenth fewer images.

OUT gets table.md, table.csv (a line for each run), results.json and reproduce.tar.gz,
which holds all small files and what unfinished runs resume from; with --report also
figures.tar.gz. Exit status: 0 all done, 1 a run failed, 75 runs are left (the same
command goes on).
"""

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.launching.jobs import Job, Jobs
from experiments.launching.options import (
    add_arguments,
    choose,
    data_flags,
    data_settings,
    parse,
    run_until,
    small_settings,
)
from experiments.launching.pack import pack_figures
from experiments.launching.study import run_study
from experiments.launching.summary import describe_place, show_mean_std
from vit_jax.analysis.tables import markdown_table, write_csv
from vit_jax.config import load_config_file
from vit_jax.errors import UserError
from vit_jax.files import write_file
from vit_jax.metrics.paired import mean_and_std
from vit_jax.parallel.commands import make_parser, run_command
from vit_jax.runs.records import evaluations
from vit_jax.training.progress import say


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
      config: a file under configs/, with its variant.
      reported: test accuracy in %, the highest where the study gives several; or None.
      selects_on: what chose the study's epoch, "test" or "nothing" (the last epoch).
    """

    config: str
    reported: float | None
    selects_on: str


ROWS = {
    "vit_192x9": Row("configs/vit_192x9.py", 86.39, "test"),
    # The study does not say how the epoch was chosen; its ViT suggests this.
    "vit_192x9_resnet18": Row("configs/vit_192x9.py:resnet18", 93.64, "test"),
    "vit_128x6": Row("configs/vit_128x6.py", 65.0, "nothing"),
    "vit_128x6_sinusoidal": Row("configs/vit_128x6.py:sinusoidal", 70.50, "nothing"),
    # The study does not say it either, but names a best epoch of its ViT.
    "vit_192x12": Row("configs/vit_192x12.py", 86.70, "test"),
    "vit_192x12_resnet18": Row("configs/vit_192x12.py:resnet18", 93.43, "test"),
    "vit_256x6_baseline": Row("configs/vit_256x6.py:baseline", 66.73, "nothing"),
    "vit_256x6": Row("configs/vit_256x6.py", 76.23, "nothing"),
}
# Only with --only: nothing is reported for them.
EXTRA_ROWS = {
    "vit_192x9_resnet18_milestones": Row(
        "configs/vit_192x9.py:resnet18_milestones", None, "test"
    ),
    "vit_192x12_plain": Row("configs/vit_192x12.py:plain", None, "test"),
    **{
        f"vit_256x6_{change}": Row(f"configs/vit_256x6.py:{change}", None, "nothing")
        for change in ("augment", "decay", "cosine", "longer")
    },
}
PROTOCOLS = ("original", "holdout")


def protocol_settings(row: Row, protocol: str) -> dict[str, Any]:
    """The settings of one of `PROTOCOLS` for a row."""
    number, selects_on = 5000, "val"
    if protocol == "original":
        number, selects_on = 0, row.selects_on
    return {
        "data.validation": number,
        "data.validation_fraction": 0.0,
        "data.select_on": selects_on,
    }


def make_jobs(options: argparse.Namespace) -> dict[Job, tuple[str, str]]:
    """{run: (row, protocol)}, in the order of training: first one seed of every row."""
    for key in protocol_settings(next(iter(ROWS.values())), "original"):
        if key in options.settings:
            raise UserError(
                f"config.{key} follows from the protocol; leave it out, and choose by "
                "--protocols."
            )
    shared = options.settings | data_settings(options.data)
    known = ROWS | EXTRA_ROWS
    names = choose(options.only, known, ROWS, "row")
    protocols = choose(options.protocols, PROTOCOLS, PROTOCOLS, "protocol")
    # Each study's own seed comes first.
    first_seeds = {name: load_config_file(known[name].config).seed for name in names}
    jobs = {}
    for number in range(options.seeds):
        for protocol in protocols:
            for name in names:
                row, seed = known[name], first_seeds[name] + number
                settings = {**shared, **protocol_settings(row, protocol)}
                if options.small:
                    settings |= small_settings(row.config, options.settings)
                job = Job(
                    f"{name}-{protocol}-s{seed}", row.config, settings | {"seed": seed}
                )
                jobs[job] = name, protocol
    return jobs


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
        # Those of the other protocol have another length.
        timed = by["original"] or by["holdout"]
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
                show_mean_std((r["train_seconds"] for r in timed), 1),
                show_mean_std((r["images_per_second"] for r in timed), 1e-3),
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
    jobs: Jobs, planned: Mapping[Job, tuple[str, str]], options: argparse.Namespace
) -> None:
    """`evaluate --report` of each row's first seed on the hold-out, once each."""
    flags = ["--report", *data_flags(options.data)]
    for job, (_, protocol) in planned.items():
        path = jobs.folder(job).path
        first = load_config_file(job.config).seed
        is_meant = protocol == "holdout" and job.settings["seed"] == first
        if not is_meant or not jobs.is_finished(job) or (path / "report.html").exists():
            continue
        status = run_until(
            options.deadline, "vit_jax.evaluate", f"--workdir={path}", *flags
        )
        if status != 0:
            reason = "no time was left" if status is None else f"exit status {status}"
            say(f"no report of {job.name}: {reason}")


def main(arguments: Sequence[str]) -> int:
    """Trains what is not finished and writes the tables."""
    parser = make_parser(
        "experiments.reproduce",
        __doc__,
        f"Rows: {', '.join(ROWS)}; with --only: {', '.join(EXTRA_ROWS)}. "
        "--config.group.name=value changes every run.",
    )
    add_arguments(parser, out="runs/reproduce")
    parser.add_argument("--only", metavar="ROW,ROW", help="some rows; else all")
    parser.add_argument(
        "--protocols", metavar="original,holdout", help="one; else both"
    )
    parser.add_argument(
        "--report", action="store_true", help="also a report of each first hold-out run"
    )
    options = parse(parser, arguments)
    planned = make_jobs(options)
    jobs = Jobs(options.out, parallel=options.parallel)

    def write() -> None:
        write_tables(jobs, planned)
        if options.report and not jobs.is_stopped:
            write_reports(jobs, planned, options)
            say(str(pack_figures(jobs.out)))

    return run_study("reproduce", jobs, [*planned], options, write=write)


if __name__ == "__main__":
    run_command(main)
