"""Repeats four published from-scratch studies, each by the protocol that it used.

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

from collections.abc import Sequence

from experiments.launching.jobs import Jobs
from experiments.launching.options import add_arguments, data_settings, parse
from experiments.launching.pack import pack_figures
from experiments.launching.study import run_study
from experiments.reproducing.rows import EXTRA_ROWS, ROWS, make_jobs
from experiments.reproducing.table import write_reports, write_tables
from vit_jax.parallel.commands import make_parser, run_command
from vit_jax.training.progress import say


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
    shared = options.settings | data_settings(options.data)
    planned = make_jobs(options, shared)
    jobs = Jobs(options.out, parallel=options.parallel)

    def write() -> None:
        if options.report:
            write_reports(jobs, planned, options.deadline)
            say(str(pack_figures(jobs.out)))
        write_tables(jobs, planned)

    return run_study("reproduce", jobs, [*planned], options, write=write)


if __name__ == "__main__":
    run_command(main)
