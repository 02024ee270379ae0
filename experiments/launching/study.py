"""The course of a command that trains planned runs and writes tables of them."""

import argparse
import shlex
from collections.abc import Callable, Mapping, Sequence

from experiments.launching.jobs import Job, Jobs
from experiments.launching.options import report_left
from vit_jax.training.progress import say


def run_study(
    name: str,
    jobs: Jobs,
    planned: Sequence[Job],
    options: argparse.Namespace,
    *,
    write: Callable[[], None],
    needs: Mapping[Job, Job] | None = None,
    bases: Mapping[Job, Job] | None = None,
) -> int:
    """Trains what is not finished, writes and packs; or shows the commands.

    Args:
      name: of the archive.
      planned: all runs, in the order of training.
      options: those of `parse`.
      write: writes table.md and more, of whatever is there.
      needs: {run: the run whose result it starts from}, both of `planned`. The runs
        that others need are trained first.
      bases: {run: the run that `write` compares its predictions with}. Each is packed
        with its state until the other is finished.

    Returns:
      The exit status.
    """
    for job in planned:
        job.load_config()  # A mistake is found before the first training.
    if options.dry_run:
        for job in planned:
            print(shlex.join(jobs.command(job)))
        return 0
    needs = needs or {}
    left: list[Job] = []
    first = [job for job in planned if job in {*needs.values()}]
    if first:
        left += jobs.launch(first, deadline=options.deadline, retry=options.retry)
    then = [job for job in planned if job not in first]
    # Where some of the first are left, a signal or the time limit has ended this
    # command; and one that failed has nothing to start from.
    ready = [
        job
        for job in then
        if not left and (job not in needs or jobs.is_finished(needs[job]))
    ]
    if ready:
        left += jobs.launch(ready, deadline=options.deadline, retry=options.retry)
    left += [
        job
        for job in then
        if not (job in ready or jobs.is_finished(job))
        and not (job in needs and jobs.error(needs[job]))
    ]
    write()
    pairs = [*(bases or {}).items()]
    others = [*needs.items(), *pairs, *((base, job) for job, base in pairs)]
    wanted = [other for job, other in others if not jobs.is_finished(job)]
    say(f"{jobs.out / 'table.md'} and {jobs.pack(name, wanted)}")
    return report_left(jobs, planned, left)
