"""Which changes help? Arms of one change each, compared on the hold-out alone.

python -m experiments.search --study=flagship --data=DIR --epochs=40 --seeds=1
python -m experiments.search --study=flagship --data=DIR --arms=base,adamw --seeds=3
python -m experiments.search --study=flagship --data=DIR --final --seeds=5

Each arm and seed is a run of `vit_jax.main`. That scores the test split at its end, by
design, but nothing here reads or shows those scores before --final: arms are ranked by
the best accuracy on the hold-out, which is in metrics.jsonl.

--final trains the study's config as it stands, and its rivals, and reports the test
scores, once. Where the study asks for equal time, a rival trains for as many epochs as
fit into the seconds the config took, by its own measured speed.

Runs are added to RECORD.json, from which RECORD.md is written anew; only "learned" in
the JSON, a sentence for each arm, is meant to be edited.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from experiments import launch
from experiments.arms import STUDIES, Study
from experiments.launch import Job, Jobs
from vit_jax.commands import run_command
from vit_jax.compare import markdown_table
from vit_jax.config import apply_overrides, load_config_file
from vit_jax.errors import UserError, did_you_mean
from vit_jax.progress import say

RESULTS = pathlib.Path(__file__).parent / "results"
# All images but ten, one of each class, are trained on; with a single evaluation, at
# the end, there is nothing to select.
ALL_IMAGES = {"data.validation": 10, "eval_every": "100%"}


@dataclasses.dataclass(frozen=True)
class Search:
    """A study, the settings every run of it shares, and where it all goes."""

    study: Study
    shared: Mapping[str, Any]
    jobs: Jobs
    options: argparse.Namespace

    def job(
        self, name: str, config: str, settings: Mapping[str, Any], seed: int
    ) -> Job:
        """Of one seed; `settings` go before what all runs share, --small before all."""
        settings = {**self.shared, **settings, "seed": seed}
        if self.options.small:
            settings |= launch.small_settings(config)
            name += "-small"
        return Job(f"{self.options.study}-{name}-s{seed}", config, settings)

    def arm_jobs(self, arms: Sequence[str]) -> dict[Job, str]:
        """{run: its arm}, seed by seed, so that every arm is tried before any twice."""
        length, suffix = {}, ""
        if self.options.epochs:
            length, suffix = {"num_epochs": self.options.epochs}, "-short"
        return {
            self.job(
                arm + suffix, self.study.config, length | self.study.arms[arm][1], seed
            ): arm
            for seed in range(self.options.seeds)
            for arm in arms
        }

    def is_held_out(self, job: Job) -> bool:
        """Whether the run selects on other images than those it is tested on."""
        return job.requested()["data.validation"] != "test"


def describe_run(jobs: Jobs, job: Job) -> dict[str, Any]:
    """What a finished run's row shows: its best hold-out scores, and no test score."""
    folder = jobs.folder(job)
    results, environment = folder.read("results"), folder.read("environment")
    evaluations = [r for r in folder.read_metrics() if r["split"] == "val"]
    best = max(evaluations, key=lambda r: (r["accuracy"], -r["loss"]))
    return {
        "seed": results["seed"],
        "epochs": results["num_epochs"],
        "best_epoch": best["epoch"],
        "holdout_accuracy": best["accuracy"],
        "holdout_loss": best["loss"],
        "train_seconds": round(results["train_seconds"], 1),
        "wall_seconds": round(jobs.wall_seconds(job), 1),
        "images_per_second": round(results["images_per_second"]),
        "device": f"{results['num_devices']} x {results['device']}",
        "jax": environment["jax"],
    }


def read_record(file: pathlib.Path) -> dict[str, Any]:
    """The record so far, or an empty one."""
    if not file.exists():
        return {"learned": {}, "runs": {}, "final": {}}
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file} is damaged ({error}); mend or remove it.") from None


def write_record(file: pathlib.Path, record: Mapping[str, Any], study: Study) -> None:
    """FILE.json, and FILE.md with the tables."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    file.with_suffix(".md").write_text(describe_record(record, study))


def describe_record(record: Mapping[str, Any], study: Study) -> str:
    """Markdown: a table of arms, best first, one of runs, and one of the final runs."""
    runs = record["runs"]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs.values():
        groups.setdefault((run["arm"], f"{run['epochs']:g}"), []).append(run)
    ranked = sorted(groups.items(), key=lambda item: _rank(item[1]), reverse=True)
    arms = [
        [
            arm, study.arms[arm][0], _show_changes(study.arms[arm][1]), epochs,
            launch.show_mean_std(run["holdout_accuracy"] for run in group),
            f"{launch.mean_std(run['holdout_loss'] for run in group)[0]:.4f}",
            f"{launch.mean_std(run['train_seconds'] for run in group)[0]:.1f}",
            record["learned"].get(arm) or "",
        ]
        for (arm, epochs), group in ranked
    ]  # fmt: skip
    rows = [
        [
            name, _show_changes(run["changes"]), f"{100 * run['holdout_accuracy']:.2f}",
            f"{run['epochs']:g}", f"{run['train_seconds']:.1f}",
            f"{run['wall_seconds']:.1f}", f"{run['images_per_second']:,}",
            str(run["seed"]), run["device"],
        ]
        for name, run in runs.items()
    ]  # fmt: skip
    parts = [
        f"# {study.question}",
        f"Each arm is `{study.config}` with one change. Ranked by mean hold-out "
        "accuracy (of each run's best evaluation), then by mean loss there; test "
        "scores played no part. Written by `python -m experiments.search`.",
        markdown_table(
            ["arm", "question", "change", "epochs", "hold-out accuracy (%)",
             "hold-out loss", "training (s)", "learned"], arms,
        ),
        "## Runs",
        markdown_table(
            ["run", "settings", "hold-out (%)", "epochs", "training (s)",
             "whole process (s)", "images/s", "seed", "device"], rows,
        ),
    ]  # fmt: skip
    if record["final"]:
        parts += ["## Final", describe_final(record["final"])]
    return "\n\n".join(parts) + "\n"


def _rank(group: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    accuracies, losses = zip(
        *((run["holdout_accuracy"], run["holdout_loss"]) for run in group), strict=True
    )
    return launch.mean_std(accuracies)[0], -launch.mean_std(losses)[0]


def _show_changes(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in changes.items()) or "none"


def describe_final(final: Mapping[str, Mapping[str, Any]]) -> str:
    """The Markdown table of --final: test scores, by config."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for run in final.values():
        groups.setdefault(run["config"], []).append(run)

    def show(group, key, form):
        return f"{launch.mean_std(run[key] for run in group)[0]:{form}}"

    rows = [
        [
            config,
            launch.show_mean_std(run["test_accuracy"] for run in group),
            launch.show_mean_std(run["holdout_accuracy"] for run in group),
            show(group, "epochs", ".4g"),
            launch.show_mean_std((run["train_seconds"] for run in group), 1),
            show(group, "wall_seconds", ".1f"),
            show(group, "images_per_second", ",.0f"),
            group[0]["device"],
        ]
        for config, group in groups.items()
    ]  # fmt: skip
    note = (
        "Mean ± standard deviation (seeds). Training: without compilation, evaluation "
        "and checkpoints; whole process: with all of that."
    )
    head = ["config", "test accuracy (%)", "hold-out (%)", "epochs", "training (s)"]
    head += ["whole process (s)", "images/s", "device"]
    return f"{markdown_table(head, rows)}\n\n{note}"


def train_final(search: Search, deadline: float) -> tuple[list[Job], list[Job]]:
    """(all runs of the study's config and of its rivals, those left)."""
    options, study = search.options, search.study
    settings = ALL_IMAGES if options.all_images else {}
    kind = "final-all" if options.all_images else "final"
    seeds = range(options.seeds)
    ours = [search.job(f"{kind}-ours", study.config, settings, s) for s in seeds]
    left = search.jobs.launch(ours, deadline=deadline, retry=options.retry)
    rivals = []
    for rival in study.rivals:
        name = f"{kind}-{pathlib.Path(rival).stem.replace(':', '-').replace('.py', '')}"
        length = {}
        if study.equal_time:
            if left or any(search.jobs.error(job) for job in ours):
                break
            probe = search.job(f"{name}-probe", rival, {**settings, "num_epochs": 3}, 0)
            if search.jobs.launch([probe], deadline=deadline, retry=options.retry):
                left = [*left, probe]
                break
            length = {"num_epochs": _equal_epochs(search, ours, probe)}
        jobs = [search.job(name, rival, settings | length, seed) for seed in seeds]
        left = [*left, *search.jobs.launch(jobs, deadline=deadline)]
        rivals += jobs
    return [*ours, *rivals], left


def _equal_epochs(search: Search, ours: Sequence[Job], probe: Job) -> float:
    """Epochs of the probe's config that take as long as `ours` took on average."""
    folders = [search.jobs.folder(job) for job in ours]
    seconds, _ = launch.mean_std(f.read("results")["train_seconds"] for f in folders)
    folder = search.jobs.folder(probe)
    speed = folder.read("results")["images_per_second"]
    num_images = folder.read("dataset")["num_examples"]["train"]
    return round(max(1.0, seconds * speed / num_images), 1)


def report_final(search: Search, jobs: Sequence[Job]) -> dict[str, Any]:
    """{run: its row} of the finished ones; draws curves and tables with `compare`."""
    finished = [job for job in jobs if search.jobs.is_finished(job)]
    rows = {}
    for job in finished:
        results = search.jobs.folder(job).read("results")
        rows[job.name] = describe_run(search.jobs, job) | {
            "config": job.config,
            "test_accuracy": results["test"]["accuracy"],
        }
    scored = [str(search.jobs.folder(job).path) for job in finished]
    scored = [path for path in scored if pathlib.Path(path, "checkpoints").exists()]
    if scored and not search.options.small:
        out = f"--out={search.jobs.out / 'compared'}"
        subprocess.run([sys.executable, "-m", "vit_jax.compare", *scored, out])
    return rows


def _choose_arms(study: Study, names: str | None) -> list[str]:
    arms = names.split(",") if names else list(study.arms)
    for arm in arms:
        if arm not in study.arms:
            raise UserError(
                f"There is no arm {arm}{did_you_mean(arm, study.arms)}; this study has "
                f"{', '.join(study.arms)}."
            )
    return arms


def _parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="--config.group.name=value changes every run.",
        allow_abbrev=False,
    )
    launch.add_arguments(parser, out="runs/search")
    parser.add_argument("--study", choices=STUDIES, default="flagship")
    parser.add_argument("--arms", metavar="A,B", help="some of the study's; else all")
    parser.add_argument("--epochs", type=float, help="shorter than the config says")
    parser.add_argument("--final", action="store_true", help="test the config itself")
    parser.add_argument(
        "--all_images", action="store_true", help="--final: train on the hold-out, too"
    )
    parser.add_argument("--record", metavar="FILE.json", type=pathlib.Path)
    return parser.parse_known_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Trains arms or final runs, and writes the record anew."""
    options, overrides = _parse(arguments)
    deadline = time.monotonic() + options.time_limit_seconds
    study = STUDIES[options.study]
    base = load_config_file(study.config)
    apply_overrides(base, overrides)  # refuses what is no setting
    shared = dict(o.removeprefix("--config.").split("=", 1) for o in overrides)
    shared |= launch.data_settings(options.data)
    jobs = Jobs(options.out, parallel=options.parallel)
    search = Search(study, shared, jobs, options)
    place = jobs.out if options.small else RESULTS
    file = options.record or place / f"{options.study}.json"
    record = read_record(file)
    arms = search.arm_jobs(_choose_arms(study, options.arms))
    if options.dry_run:
        for job in arms:
            print(*jobs.command(job))
        return 0
    if options.final:
        all_jobs, left = train_final(search, deadline)
        record["final"] |= report_final(search, all_jobs)
    else:
        if not all(map(search.is_held_out, arms)):
            raise UserError(
                "config.data.validation is 'test', but arms are compared on images "
                "held out; give a number."
            )
        all_jobs = [*arms]
        left = jobs.launch(all_jobs, deadline=deadline, retry=options.retry)
        for job, arm in arms.items():
            record["learned"].setdefault(arm, "")
            if jobs.is_finished(job):
                row = {"arm": arm, "changes": dict(study.arms[arm][1])}
                record["runs"][job.name] = row | describe_run(jobs, job)
    write_record(file, record, study)
    say(f"{file.with_suffix('.md')} and {jobs.pack('search')}")
    return launch.report_left(jobs, all_jobs, left)


if __name__ == "__main__":
    run_command(main)
