"""Runs side by side: their numbers and curves, and paired tests of the difference.

python -m vit_jax.compare RUN RUN... --out=DIR [--train_accuracy=0.9]

Each run's selected checkpoint, or the last one where nothing was selected, is scored on
the test split. Runs whose settings differ only in the seed share one row, mean ±
standard deviation; an unfinished run has one of its own. Recipes that have two or more
seeds in common are also compared over these. DIR gets comparison.md and comparison.png,
comparison.csv (one row for each run), paired.csv, curves.png and
accuracy_over_time.png. In the CSV, the epochs to an accuracy that was never reached are
"inf". Flags such as --data_dir say where the data of all runs lie.
"""

import functools
from collections.abc import Sequence

from vit_jax.config.command_line import add_data_flags, moved_settings
from vit_jax.errors import UserError
from vit_jax.files import user_path
from vit_jax.parallel.commands import announce, make_parser, run_command


def main(arguments: Sequence[str]) -> None:
    """Compares finished or unfinished runs and prints the tables."""
    parser = make_parser("vit_jax.compare", __doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders of runs")
    parser.add_argument(
        "--out", required=True, metavar="DIR", type=user_path, help="where to write"
    )
    parser.add_argument(
        "--train_accuracy",
        type=float,
        default=0.9,
        metavar="FRACTION",
        help="epochs and seconds are counted to it; above 0, at most 1 (default 0.9)",
    )
    add_data_flags(parser)
    options, unknown = parser.parse_known_intermixed_args(arguments)
    moved = moved_settings(options, unknown)
    if not 0 < options.train_accuracy <= 1:
        raise UserError(
            f"--train_accuracy is {options.train_accuracy:g}, but a fraction above 0 "
            "and at most 1 is expected; give 0.9 for 90%."
        )
    announce(options.runs)
    # Imported late: JAX takes seconds to load, and mistakes are reported before.
    from vit_jax.analysis.compare import compare

    print(compare(options, moved))


run = functools.partial(run_command, main)


if __name__ == "__main__":
    run()
