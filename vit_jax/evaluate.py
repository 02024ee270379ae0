"""Exact evaluation of a split; the command that adds it to a run's results.

python -m vit_jax.evaluate --workdir=RUN [--checkpoint=best] [--split=test]
python -m vit_jax.evaluate --workdir=RUN --report [--human_labels=FILE] [--mirrored]
python -m vit_jax.evaluate --workdir=RUN --report --confusion=cat,dog

--report also scores the train and val splits, and subset_test beside test, times the
model, and writes figures/, CSV files and report.html. The report of a finished run's
best checkpoint on the test split goes into RUN, any other into RUN/reports/SPLIT-STEP.
--confusion=cat,dog adds the images of class cat that are predicted as dog to the
report; it may be given several times.
--mirrored also averages each image's probabilities with those of its mirror image; this
score is stored apart, as "mirrored".
"""

import functools
from collections.abc import Sequence

from vit_jax.config.command_line import add_data_flags, moved_settings
from vit_jax.errors import UserError
from vit_jax.parallel.commands import announce, make_parser, run_command


def main(arguments: Sequence[str]) -> None:
    """Scores one split with one checkpoint and adds the scores to results.json."""
    parser = make_parser("vit_jax.evaluate", __doc__)
    parser.add_argument("--workdir", required=True, help="the run's folder")
    parser.add_argument("--checkpoint", default="best", help="best, latest or a step")
    parser.add_argument(
        "--split", default="test", help="test, val, train or subset_test"
    )
    parser.add_argument("--report", action="store_true", help="write the whole report")
    parser.add_argument(
        "--human_labels", metavar="FILE", help="CIFAR-10H counts (.npy), for the report"
    )
    parser.add_argument(
        "--confusion",
        metavar="TRUE,PREDICTED",
        action="append",
        default=[],
        help="show the images of one confusion in the report",
    )
    parser.add_argument(
        "--mirrored", action="store_true", help="also score with mirror images"
    )
    add_data_flags(parser)
    options, unknown = parser.parse_known_args(arguments)
    moved = moved_settings(options, unknown)
    for name in ("human_labels", "confusion"):
        if getattr(options, name) and not options.report:
            raise UserError(f"--{name} is used in a report only; add --report.")
    announce(options.workdir)
    # Imported late: JAX takes seconds to load, and mistakes are reported before.
    from vit_jax.analysis.evaluate import evaluate

    evaluate(options, moved)


run = functools.partial(run_command, main)


if __name__ == "__main__":
    run()
