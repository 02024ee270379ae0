"""Runs side by side: their numbers and curves, and paired tests of the difference.

python -m vit_jax.compare RUN RUN... --out=DIR [--train_accuracy=0.9]

Each run's selected checkpoint, or the last one where nothing was selected, is scored on
the test split. Runs whose settings differ only in the seed share one row, mean ±
standard deviation. DIR gets comparison.md and comparison.png, comparison.csv (one row
for each run), paired.csv, curves.png and accuracy_over_time.png. In the CSV an accuracy
that was never reached took "inf" epochs.
"""

import functools
import pathlib
from collections.abc import Sequence

from vit_jax.analysis import compare as analysis_compare
from vit_jax.analysis.compare_files import compare
from vit_jax.analysis.run_data import DATA_EPILOG
from vit_jax.errors import UserError
from vit_jax.parallel.commands import make_parser, run_command


def _names(workdirs: Sequence[str]) -> list[str]:
    """The folders' own names, or their paths where two share a name."""
    paths = [pathlib.Path(workdir).resolve() for workdir in workdirs]
    if len(paths) < 2 or len(set(paths)) < len(paths):
        raise UserError(
            f"There are {len(set(paths))} different run folders given, of "
            f"{len(paths)}, but at least two, each once, are compared; give others."
        )
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else list(workdirs)


def main(arguments: Sequence[str]) -> None:
    """Compares finished or unfinished runs and prints the tables."""
    parser = make_parser(
        "vit_jax.compare", __doc__, f"{DATA_EPILOG} It holds for all runs."
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders of runs")
    parser.add_argument("--out", required=True, metavar="DIR", help="where to write")
    parser.add_argument(
        "--train_accuracy",
        type=float,
        default=0.9,
        metavar="SHARE",
        help="epochs and seconds are counted to it; above 0, at most 1 (default 0.9)",
    )
    options, overrides = parser.parse_known_args(arguments)
    goal = options.train_accuracy
    if not 0 < goal <= 1:
        raise UserError(
            f"--train_accuracy is {goal:g}, but a share above 0 and at most 1 is "
            "expected; give 0.9 for 90%."
        )
    names = _names(options.runs)
    entries = [
        analysis_compare.load_entry(workdir, name, overrides, goal=goal)
        for workdir, name in zip(options.runs, names, strict=True)
    ]
    print(compare(entries, pathlib.Path(options.out)))


run = functools.partial(run_command, main)


if __name__ == "__main__":
    run()
