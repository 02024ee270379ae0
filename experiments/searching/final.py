"""A study's config and its rivals, tested once."""

import argparse
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.launching.jobs import Job, Jobs
from experiments.launching.options import (
    LEFT_OVER,
    data_flags,
    merge_settings,
    run_until,
    small_settings,
)
from experiments.launching.summary import TARGET, describe_job
from experiments.searching.arms import ALL_IMAGES, Study
from vit_jax.training.progress import say

# It only measures the speed, and a warm-up could be longer than it is.
PROBE = {"time_budget": "1 minute", "num_steps": None, "schedule.warmup": "0 epochs"}


@dataclasses.dataclass(frozen=True)
class Search:
    """A study, its folder, and `shared`: the user's settings and where the data are."""

    study: Study
    shared: Mapping[str, Any]
    jobs: Jobs
    options: argparse.Namespace

    def job(
        self, name: str, config: str, settings: Mapping[str, Any], seed: int
    ) -> Job:
        """Of one seed; `settings` go before what all runs share, and --small before
        both, except before the user's settings."""
        small = {}
        if self.options.small:
            small = small_settings(config, self.options.settings)
            name += "-small"
            if "model.stem_channels" in settings:  # They may be none.
                small.pop("model.stem_channels", None)
        settings = merge_settings(self.shared, settings, {"seed": seed}, small)
        return Job(f"{self.options.study}-{name}-s{seed}", config, settings)

    def arm_jobs(self, arms: Sequence[str]) -> dict[Job, str]:
        """{run: its arm}, seed by seed, so that every arm is tried before any twice."""
        length, suffix = {}, ""
        if self.options.epochs:
            length = {"num_epochs": self.options.epochs, "time_budget": None}
            suffix = f"-{self.options.epochs:g}epochs"
        jobs = {}
        for seed in range(self.options.seeds):
            for arm in arms:
                settings = length | self.study.arms[arm][1]
                jobs[self.job(arm + suffix, self.study.config, settings, seed)] = arm
        return jobs

    def final_jobs(
        self, name: str, config: str, length: Mapping[str, Any]
    ) -> list[Job]:
        """Runs of --final, one for each seed."""
        kind = "final-all" if self.options.all_images else "final"
        settings = (ALL_IMAGES if self.options.all_images else {}) | length
        return [
            self.job(f"{kind}-{name}", config, settings, seed)
            for seed in range(self.options.seeds)
        ]

    def our_jobs(self) -> list[Job]:
        """Runs of the study's config."""
        return self.final_jobs("ours", self.study.config, {})

    @property
    def needs_probes(self) -> bool:
        """Whether the time of the rivals has to be measured.

        With a time budget for all runs, each measures its own speed.
        """
        budget = self.shared.get("time_budget")
        return self.study.equal_time and budget in (None, "None")

    def probe(self, rival: str) -> Job:
        """A short run that measures the rival's speed."""
        return self.final_jobs(f"{pathlib.Path(rival).stem}-probe", rival, PROBE)[0]

    def rival_jobs(self, rival: str) -> list[Job] | None:
        """Runs of a rival; None while it is not known for how long it may train."""
        length = {}
        if self.needs_probes:
            ours, probe = self.our_jobs()[0], self.probe(rival)
            if not (self.jobs.is_finished(ours) and self.jobs.is_finished(probe)):
                return None
            epochs = self._equal_epochs(ours, probe)
            length = {"num_epochs": epochs, "num_steps": None, "time_budget": None}
        return self.final_jobs(pathlib.Path(rival).stem, rival, length)

    def _equal_epochs(self, ours: Job, probe: Job) -> float:
        """Epochs of the probe's config that take as long as `ours` took.

        It takes one seed, so that seeds that are trained later do not change it.
        """
        seconds = self.jobs.folder(ours).read("results")["train_seconds"]
        folder = self.jobs.folder(probe)
        speed = folder.read("results")["images_per_second"]
        num_images = folder.read("dataset")["num_examples"]["train"]
        return round(max(1.0, seconds * speed / num_images), 1)


def train_final(
    search: Search, deadline: float
) -> tuple[list[Job], list[Job], list[Job]]:
    """Trains the study's config, then its rivals.

    Returns:
      Runs of the config and of its rivals; runs that only measured speed; and those of
      either kind that are not finished.
    """
    final, probes, left = [], [], []

    def launch(jobs: Sequence[Job], into: list[Job]) -> None:
        into.extend(jobs)
        retry = search.options.retry
        left.extend(search.jobs.launch(jobs, deadline=deadline, retry=retry))

    launch(search.our_jobs(), final)
    for rival in search.study.rivals:
        if left:
            break
        if search.needs_probes and search.jobs.is_finished(final[0]):
            launch([search.probe(rival)], probes)
        jobs = search.rival_jobs(rival)
        if jobs is not None:
            launch(jobs, final)
        elif not left:
            say(f"{rival} is not trained: the runs that say for how long failed.")
    return final, probes, left


def plan_final(search: Search) -> Iterator[Job | str]:
    """The runs of `train_final`; a sentence where they are not known yet."""
    yield from search.our_jobs()
    for rival in search.study.rivals:
        if search.needs_probes:
            yield search.probe(rival)
        jobs = search.rival_jobs(rival)
        yield from jobs or (
            f"# and {search.options.seeds} run(s) of {rival}, whose length follows "
            "from those before",
        )


def report_final(search: Search, jobs: Sequence[Job]) -> dict[str, Any]:
    """{run: its row} of the finished ones."""
    rows = {}
    for job in filter(search.jobs.is_finished, jobs):
        row = describe_job(search.jobs, job)
        test = search.jobs.folder(job).read("results")["test"]["accuracy"]
        if search.options.all_images:
            reached = test >= TARGET
            row["seconds_to_94"] = row["train_seconds"] if reached else None
        row["all_images"] = search.options.all_images
        rows[job.name] = row | {"test_accuracy": test}
    return rows


def compare_final(search: Search, jobs: Sequence[Job], deadline: float) -> int:
    """Draws curves and tables with `vit_jax.compare`; returns its exit status.

    0 where there is nothing to compare, `LEFT_OVER` where `deadline` came first.
    """
    folders = [search.jobs.folder(j) for j in jobs if search.jobs.is_finished(j)]
    runs = [str(folder.path) for folder in folders if folder.has_checkpoints()]
    if len(runs) < 2 or search.options.small:
        return 0
    if len(runs) < len(folders):
        say(f"compared without {len(folders) - len(runs)} runs that lack checkpoints")
    flags = [f"--out={search.jobs.out / 'compared'}", *data_flags(search.options.data)]
    status = run_until(deadline, "vit_jax.compare", *runs, *flags)
    if status is None:
        say("no time was left for the comparison; the same command goes on with it")
        return LEFT_OVER
    if status != 0:
        say("the runs are there, but comparing them failed")
    return status
