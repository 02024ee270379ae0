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
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from vit_jax import data, evaluation, page, report, runs, scoring
from vit_jax.commands import make_parser, run_command
from vit_jax.config import apply_overrides, flatten
from vit_jax.errors import UserError, did_you_mean
from vit_jax.evaluation import Scored, Scorer
from vit_jax.folder import RunFolder
from vit_jax.metrics import human

# Where the data lie, and how they are read: all that scoring may change of a run.
MOVABLE = (
    "data.source",
    "data.dir",
    "data.archive",
    "data.download",
    "eval_batch_size",
)

DATA_EPILOG = (
    "Where the data lie may be given as for main, for example --config.data.dir=DIR on "
    "another machine."
)


def load_splits(
    run: runs.Run, overrides: Sequence[str] = (), flags: Sequence[str] = ()
) -> tuple[ConfigDict, dict[str, data.Dataset]]:
    """(config, splits) to score a run on: its own data, wherever they lie now.

    Args:
      overrides: "--config.data.dir=DIR" and the like; what decides which images are in
        a split, or what the model is, cannot be changed here.
      flags: the command's other arguments, for "did you mean".

    Raises:
      UserError: another setting, data that cannot be read, or other data.
    """
    config = apply_overrides(run.config, overrides, flags)
    before, after = dict(flatten(run.config)), dict(flatten(config))
    fixed = [k for k in after if after[k] != before[k] and k not in MOVABLE]
    if fixed:
        raise UserError(
            f"config.{fixed[0]} belongs to the trained run and cannot be changed here; "
            f"only {', '.join(MOVABLE)} can."
        )
    splits = data.load(config.data)
    trained = RunFolder(run.workdir).read("dataset")
    found = scoring.describe_dataset(splits)
    if found != trained:
        raise UserError(
            f"The run was trained on {trained}, but the data found are {found}; give "
            "the dataset it was trained on."
        )
    return config, splits


def choose_split(splits: dict[str, data.Dataset], name: str) -> data.Dataset:
    """The split of that name.

    Raises:
      UserError: there is none.
    """
    if name not in splits:
        raise UserError(
            f"There is no split {name}{did_you_mean(name, splits)}; this run has "
            f"{', '.join(splits)}."
        )
    return splits[name]


def parse_confusion(text: str, class_names: Sequence[str]) -> tuple[int, int]:
    """(true class, predicted class) of "cat,dog".

    Raises:
      UserError: these are not two different classes of the dataset.
    """
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or names[0] == names[1]:
        raise UserError(
            f"--confusion={text} does not name two different classes; give the true "
            f"and the predicted class, such as "
            f"--confusion={class_names[0]},{class_names[1]}."
        )
    for name in names:
        if name not in class_names:
            raise UserError(
                f"--confusion={text} names the class {name}, which the dataset does "
                f"not have{did_you_mean(name, class_names)}; give names that stand in "
                "dataset.json in the run's folder."
            )
    return class_names.index(names[0]), class_names.index(names[1])


def _read_results(folder: RunFolder) -> dict[str, Any]:
    return folder.read("results") if folder.has("results") else {}


def _add_to_results(
    folder: RunFolder, step: int, scores: dict[str, dict[str, Any]]
) -> None:
    """Replaces what was scored, and keeps what was not: a report's numbers."""
    results = _read_results(folder)
    place = runs.stored_scores(results, step)
    for split, new in scores.items():
        place[split] = {**(place.get(split) or {}), **new}
    folder.write("results", results)


def _report_scores(
    run: runs.Run,
    scored: Scored,
    splits: dict[str, data.Dataset],
    score: Scorer,
    counts: np.ndarray | None,
) -> dict[str, Any]:
    """The scores that only a report has: they need other splits, a clock or people."""
    records = RunFolder(run.workdir).read_metrics()
    others = {
        name: scored if splits[name] is scored.dataset else score(splits[name])
        for name in ("val", "train")
        if name in splits
    }
    scores = {
        **evaluation.compare_splits(
            scored, others.get("val"), others["train"], records=records
        ),
        **score.describe_cost(scored.dataset),
    }
    if counts is not None:
        scores["people"] = evaluation.compare_with_people(scored, counts)
    return scores


def report_folder(folder: RunFolder, step: int, split: str) -> pathlib.Path:
    """The run's own only for what it is judged by."""
    if split == "test" and step == _read_results(folder).get("best_step"):
        return folder.path
    return folder.path / "reports" / f"{split}-{step}"


def _write_report(
    run: runs.Run,
    scored: dict[str, Scored],
    scores: dict[str, dict[str, Any]],
    counts: np.ndarray | None,
    confusions: Sequence[tuple[int, int]],
) -> None:
    """A report of the first split in `scored`; the other one is subset_test.

    `confusions` are pairs of a true and a predicted class to show the images of.
    """
    split, *others = scored
    records = RunFolder(run.workdir).read_metrics()
    figures = report.draw_history(records, run.workdir.name)
    figures |= report.draw_figures(scored[split], scores[split], split)
    if others:
        figures |= report.draw_subset_test(*scored.values())
    if counts is not None:
        figures["disagreements_with_people"] = report.draw_people(scored[split], counts)
    for true, predicted in confusions:
        gallery = report.draw_confusion(scored[split], true, predicted)
        if not gallery:
            names = run.class_names
            print(f"no image of {names[true]} is predicted as {names[predicted]}")
        figures |= gallery
    folder = report_folder(RunFolder(run.workdir), run.step, split)
    for path in (folder / "figures").glob("*.png"):
        # Of an earlier report, and no longer true.
        if report.is_optional(path.stem) and path.stem not in figures:
            path.unlink()
    path = page.write_report(
        folder,
        title=f"{run.workdir.name}: {split} split, step {run.step:,}",
        scores={**scores[split], **{name: scores[name] for name in others}},
        config=run.config.to_dict(),
        figures=figures,
        tables=report.make_tables(records, scored[split]),
    )
    print(f"report: {path}")


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
    run = runs.load_run(options.workdir, options.checkpoint)
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
        mirrored = score(evaluation.mirror(dataset))
        scores[split]["mirrored"] = evaluation.describe_mean(scored[split], mirrored)
    if options.report:
        scores[split] |= _report_scores(run, scored[split], splits, score, counts)
    _add_to_results(RunFolder(run.workdir), run.step, scores)
    print(evaluation.to_text(scores[split]))
    if options.report:
        _write_report(run, scored, scores, counts, confusions)


run = functools.partial(run_command, main)

if __name__ == "__main__":
    run()
