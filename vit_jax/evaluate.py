"""Exact evaluation of a split; the command that adds it to a run's results.

python -m vit_jax.evaluate --workdir=RUN [--checkpoint=best] [--split=test]
python -m vit_jax.evaluate --workdir=RUN --report [--human_labels=FILE] [--mirrored]
python -m vit_jax.evaluate --workdir=RUN --report --confusion=cat,dog

--report also scores the train and val splits, and subset_test beside test, times the
model, and writes figures/, CSV files and report.html. Those of a finished run's best
checkpoint on the test split go into RUN, all others into RUN/reports/SPLIT-STEP.
--confusion=cat,dog adds the images of class cat that are predicted as dog to the
report; it may be given several times.
--mirrored also averages each image's probabilities with those of its mirror image; this
score stands apart, as "mirrored".
"""

import argparse
import functools
from collections.abc import Sequence

from vit_jax.analysis import evaluate
from vit_jax.analysis.evaluate import (
    add_to_results,
    parse_confusion,
    report_scores,
    write_report,
)
from vit_jax.analysis.run_data import DATA_EPILOG, choose_split, load_splits
from vit_jax.analysis.scored import Scorer
from vit_jax.errors import UserError
from vit_jax.metrics import human
from vit_jax.parallel.commands import make_parser, run_command
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run
from vit_jax.training import scoring


def _parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = make_parser("vit_jax.evaluate", __doc__, DATA_EPILOG)
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
    options, overrides = parser.parse_known_args(arguments)
    if options.human_labels and not options.report:
        raise UserError("--human_labels is only read for a report; add --report.")
    if options.confusion and not options.report:
        raise UserError("--confusion is only drawn in a report; add --report.")
    return options, overrides


def main(arguments: Sequence[str]) -> None:
    """Scores one split with one checkpoint and adds the scores to results.json."""
    options, overrides = _parse(arguments)
    flags = [f"--{name}" for name in vars(options)]
    split = options.split
    run = load_run(options.workdir, options.checkpoint)
    confusions = [parse_confusion(x, run.class_names) for x in options.confusion]
    config, splits = load_splits(run, overrides, flags)
    dataset = choose_split(splits, split)
    counts = None
    if options.human_labels:
        shape = (len(dataset), dataset.num_classes)
        counts = human.load_counts(options.human_labels, shape)
    score = Scorer(run, config.eval_batch_size)
    scored = {split: score(dataset)}
    if options.report and split == "test" and "subset_test" in splits:
        scored["subset_test"] = score(splits["subset_test"])
    scores = {
        name: scoring.describe_scores(one.logits, one.dataset)
        for name, one in scored.items()
    }
    if options.mirrored:
        mirrored = score(evaluate.mirror(dataset))
        scores[split]["mirrored"] = evaluate.describe_mean(scored[split], mirrored)
    if options.report:
        scores[split] |= report_scores(run, scored[split], splits, score, counts)
    add_to_results(RunFolder(run.workdir), run.step, scores)
    print(evaluate.to_text(scores[split]))
    if options.report:
        write_report(run, scored, scores, counts, confusions)


run = functools.partial(run_command, main)


if __name__ == "__main__":
    run()
