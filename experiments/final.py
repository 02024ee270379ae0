"""A study's config and its rivals, tested once."""

import argparse
import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.arms import Study
from experiments.launch import Job, Jobs
from experiments.options import small_settings
from experiments.record import describe_run
from experiments.summary import mean_std

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
            settings |= small_settings(config)
            name += "-small"
        return Job(f"{self.options.study}-{name}-s{seed}", config, settings)

    def arm_jobs(self, arms: Sequence[str]) -> dict[Job, str]:
        """{run: its arm}, seed by seed, so that every arm is tried before any twice."""
        length, suffix = {}, ""
        if self.options.epochs:
            length = {"num_epochs": self.options.epochs}
            suffix = f"-{self.options.epochs:g}epochs"
        jobs = {}
        for seed in range(self.options.seeds):
            for arm in arms:
                settings = length | self.study.arms[arm][1]
                jobs[self.job(arm + suffix, self.study.config, settings, seed)] = arm
        return jobs


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
        name = f"{kind}-{pathlib.Path(rival).stem}"
        length = {}
        if study.equal_time:
            if left or any(search.jobs.error(job) for job in ours):
                break
            probe = search.job(f"{name}-probe", rival, {**settings, "num_epochs": 3}, 0)
            left = search.jobs.launch([probe], deadline=deadline, retry=options.retry)
            if not search.jobs.is_finished(probe):
                break
            length = {"num_epochs": _equal_epochs(search, ours, probe)}
        jobs = [search.job(name, rival, settings | length, seed) for seed in seeds]
        left += search.jobs.launch(jobs, deadline=deadline, retry=options.retry)
        rivals += jobs
    return [*ours, *rivals], left


def _equal_epochs(search: Search, ours: Sequence[Job], probe: Job) -> float:
    """Epochs of the probe's config that take as long as `ours` took on average."""
    folders = [search.jobs.folder(job) for job in ours]
    seconds, _ = mean_std(f.read("results")["train_seconds"] for f in folders)
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
        row = describe_run(search.jobs, job)
        if search.options.all_images:
            row["holdout_accuracy"] = None  # Ten images say nothing.
        test = results["test"]["accuracy"]
        rows[job.name] = row | {"config": job.config, "test_accuracy": test}
    scored = [str(search.jobs.folder(job).path) for job in finished]
    scored = [path for path in scored if pathlib.Path(path, "checkpoints").exists()]
    if scored and not search.options.small:
        out = f"--out={search.jobs.out / 'compared'}"
        subprocess.run([sys.executable, "-m", "vit_jax.compare", *scored, out])
    return rows
