"""Runs side by side, as files with tables and figures."""

import argparse
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from vit_jax.analysis import evaluate, latency
from vit_jax.analysis.entries import (
    Entry,
    different_splits,
    group_runs,
    load_entry,
    mean_and_std,
    paired_tests,
    seed_tests,
)
from vit_jax.analysis.tables import markdown_table, plain, write_csv
from vit_jax.config.settings import SELECTED
from vit_jax.errors import UserError
from vit_jax.figures import compare as figures
from vit_jax.figures import style
from vit_jax.files import make_folder, write_file
from vit_jax.metrics import classification
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.records import evaluation_curve

# Key of a run's numbers -> heading, factor and format.
QUALITY = {
    "accuracy": ("test accuracy (%)", 100, ".2f"),
    "loss": ("test loss (nats)", 1, ".4f"),
    "mean_auc": ("mean AUC", 1, ".4f"),
    "mean_f1": ("mean F1", 1, ".4f"),
    "worst_f1": ("worst-class F1", 1, ".4f"),
    "generalization_gap": ("gap, train split scored (points)", 100, ".2f"),
    "logged_gap": ("gap, train as logged (points)", 100, ".2f"),
}
COST = {
    "parameters_m": ("parameters (M)", 1, ".3g"),
    "trainable_parameters_m": ("trainable parameters (M)", 1, ".3g"),
    "flops_g": ("GFLOPs", 1, ".3g"),
    "inference_ms": ("inference (ms)", 1, ".3g"),
    "inference_ms_batch_128": ("inference, batch 128 (ms)", 1, ".3g"),
    "epoch_seconds": ("epoch time (s)", 1, ".4g"),
    "train_seconds": ("training (s)", 1, ".4g"),
    "cpu_seconds": ("training (CPU s)", 1, ".4g"),
    "epochs_to_90": ("epochs to ≥ 90% validation accuracy", 1, ".3g"),
    "epochs_to_train_accuracy": ("epochs to ≥ {goal} train accuracy", 1, ".3g"),
    "seconds_to_train_accuracy": ("seconds to ≥ {goal} train accuracy", 1, ".4g"),
}
COLUMNS = QUALITY | COST
QUALITY_NOTE = (
    "– : not known. The gap is the generalisation gap, train accuracy minus test "
    "accuracy. With the train split scored, the checkpoint classifies its images "
    "without augmentation; this is known after `python -m vit_jax.evaluate "
    "--workdir=RUN --report`. As logged, it is the mean over the training steps of the "
    "last epoch, with dropout and augmentation."
)
COST_NOTE = (
    "GFLOPs are of one forward pass of one image; inference is the median time for one "
    "image with its quartiles, measured on the machine that compares, and not stated "
    "where the quartiles lie further apart than half the median. Epochs and seconds to "
    "a train accuracy are counted with the mean accuracy that each epoch's training "
    "steps logged. For a run that selected its checkpoint on the test split, the "
    "validation accuracy is the accuracy on the test split."
)
TEST_NOTE = (
    "Test accuracy of a run minus that of the first, on the same images: the interval "
    "of Bonett and Price (2012) over images and McNemar's exact test. They compare "
    "these trained models; the variation of a recipe shows only over several seeds."
)

SEEDS_NOTE = (
    "Test accuracy of a recipe minus that of the first, mean over the seeds that both "
    "have, and the 95% interval of a paired t test over them. It is about other seeds "
    "and not about other test images."
)


def compare(options: argparse.Namespace, moved: Mapping[str, str]) -> str:
    """Scores runs, writes tables and figures, and returns the Markdown.

    `moved` holds for all runs, see `run_data.load_splits`.

    Raises:
      UserError: fewer than two runs, or one given twice; and as `write_comparison`.
    """
    names = name_runs(options.runs)
    require_comparable(options.runs, names)
    entries = [
        load_entry(workdir, name, moved, goal=options.train_accuracy)
        for workdir, name in zip(options.runs, names, strict=True)
    ]
    return write_comparison(entries, options.out)


def name_runs(workdirs: Sequence[str]) -> list[str]:
    """The folders' own names, or their paths if two share a name.

    Raises:
      UserError: there are fewer than two, or one is given twice.
    """
    paths = [pathlib.Path(workdir).resolve() for workdir in workdirs]
    if len(paths) < 2 or len(set(paths)) < len(paths):
        raise UserError(
            "A comparison needs the folders of at least two runs, each given once, but "
            f"these were given: {', '.join(map(str, workdirs)) or 'none'}."
        )
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else list(workdirs)


def require_comparable(workdirs: Sequence[str], names: Sequence[str]) -> None:
    """Looks at what the folders say, before minutes are spent on scoring the runs.

    Raises:
      UserError: a folder has no run, or its images have other classes or sizes than
        those of the first.
    """
    for workdir in workdirs:
        RunFolder(workdir).read("config")
    first, *others = (RunFolder(workdir).read_dataset() for workdir in workdirs)
    for name, other in zip(names[1:], others, strict=True):
        if any(other[key] != first[key] for key in ("class_names", "image_shape")):
            raise different_splits(names[0], name)


def write_comparison(entries: Sequence[Entry], out: pathlib.Path) -> str:
    """Writes the tables and figures into `out` and returns the Markdown.

    Raises:
      UserError: the runs are of different datasets, or `out` cannot be written to.
    """
    tests = paired_tests(entries)
    groups = group_runs(entries)
    # What the machine did while each run's inference was timed.
    loads = [f"* {e.name}: timed {latency.load_text(e.latency)}" for e in entries]
    parts = ["# Comparison", quality_table(groups), QUALITY_NOTE]
    parts += ["## Cost and training", cost_table(groups), COST_NOTE, "\n".join(loads)]
    parts += ["## Paired tests", paired_table(tests), TEST_NOTE]
    if over_seeds := seed_tests(groups):
        parts += ["## Over seeds", seed_table(over_seeds), SEEDS_NOTE]
    markdown = "\n\n".join(parts)
    rows = [
        {
            "run": entry.name,
            "model": entry.model,
            "seed": entry.seed,
            **entry.numbers,
            "worst_class": entry.worst_class,
            "train_accuracy_goal": entry.goal,
            "selected_on": entry.selected_on,
        }
        for entry in entries
    ]
    make_folder(out, "--out")
    write_file(out / "comparison.md", markdown + "\n")
    write_csv(out / "comparison.csv", rows)
    write_csv(out / "paired.csv", tests)
    for name, figure in (
        ("comparison", draw_comparison(groups)),
        ("curves", draw_curves(entries)),
        ("accuracy_over_time", draw_accuracy_over_time(groups)),
    ):
        style.save(figure, out / f"{name}.png")
    return markdown


def group_name(group: Sequence[Entry]) -> str:
    return group[0].name + (f" (+{len(group) - 1})" if len(group) > 1 else "")


def quality_table(groups: Sequence[Sequence[Entry]]) -> str:
    head = ["run", "model", "seeds", "checkpoint"]
    head += [heading for heading, _, _ in QUALITY.values()]
    rows = []
    for group in groups:
        cells = {key: format_number(group, key) for key in QUALITY}
        # Of several seeds all that differ.
        worst = ", ".join(dict.fromkeys(entry.worst_class for entry in group))
        cells["worst_f1"] += f" ({worst})"
        seeds = ", ".join(str(entry.seed) for entry in group)
        # Runs of a group have the same settings but for the seed.
        selected = SELECTED[group[0].selected_on]
        first = [group_name(group), group[0].model, seeds, selected]
        rows.append([*first, *cells.values()])
    return markdown_table(head, rows)


def cost_table(groups: Sequence[Sequence[Entry]]) -> str:
    goal = f"{100 * groups[0][0].goal:g}%"
    head = ["run", *(heading.format(goal=goal) for heading, _, _ in COST.values())]
    rows = []
    for group in groups:
        cells = {key: format_number(group, key) for key in COST}
        if len(group) == 1:
            for key, size in (("inference_ms", 1), ("inference_ms_batch_128", 128)):
                timed = group[0].latency[f"batch_{size}"]
                low, high = timed["lower_quartile"], timed["upper_quartile"]
                cells[key] += f" ({plain(low, '.3g')} to {plain(high, '.3g')})"
        rows.append([group_name(group), *cells.values()])
    return markdown_table(head, rows)


def format_number(group: Sequence[Entry], key: str) -> str:
    """A number of a group of runs, as mean ± standard deviation over its seeds."""
    _, factor, form = COLUMNS[key]
    mean, std = (factor * value for value in mean_and_std(group, key))
    never = sum(entry.numbers[key] == math.inf for entry in group)
    if never:
        some = f" in {never} of {len(group)}" if never < len(group) else ""
        return f"never{some}"
    if math.isnan(mean):
        return "–"
    # Parameters and operations are the same for every seed.
    spread = f" ± {plain(std, '.2g')}" if std > 0 else ""
    return plain(mean, form) + spread


def paired_table(tests: Sequence[Mapping[str, Any]]) -> str:
    """The result of `paired_tests` as a Markdown table."""
    head = ["run", "against", "difference (points)", "95% interval"]
    head += ["only run right", "only other right", "McNemar p"]
    rows = [
        [
            row["run"],
            row["against"],
            f"{100 * row['difference']:+.2f}",
            _interval(row),
            str(row["only_run"]),
            str(row["only_against"]),
            # Below what a float64 holds.
            f"{row['p_value']:.3g}" if row["p_value"] else "< 1e-300",
        ]
        for row in tests
    ]
    return markdown_table(head, rows)


def seed_table(tests: Sequence[Mapping[str, Any]]) -> str:
    """The result of `seed_tests` as a Markdown table."""
    head = ["recipe of", "against that of", "seeds", "difference (points)"]
    head += ["95% interval"]
    rows = [
        [
            row["run"],
            row["against"],
            str(row["num_seeds"]),
            f"{100 * row['difference']:+.2f}",
            _interval(row),
        ]
        for row in tests
    ]
    return markdown_table(head, rows)


def _interval(row: Mapping[str, Any]) -> str:
    if math.isnan(row["low"]):
        return "–"
    return f"{100 * row['low']:+.2f} to {100 * row['high']:+.2f}"


def draw_comparison(groups: Sequence[Sequence[Entry]]) -> Figure:
    """Test accuracy of each run or recipe with its interval, and what it took.

    The time is that of the processor where all runs were trained on a CPU.
    """
    entries = [entry for group in groups for entry in group]
    of_cpu = all(entry.numbers["cpu_seconds"] is not None for entry in entries)
    accuracies = {group_name(group): _accuracy_interval(group) for group in groups}
    clock, unit = ("cpu_seconds", "CPU s") if of_cpu else ("train_seconds", "s")
    headings = {
        "parameters_m": "parameters\n(M)",
        "flops_g": "GFLOPs",
        clock: f"training\n({unit})",
        "worst_f1": "F1 of the\nworst class",
    }
    columns = {
        heading: [format_number(group, key) for group in groups]
        for key, heading in headings.items()
    }
    intervals = []
    if any(len(group) == 1 for group in groups):
        intervals.append("95% interval over the test images")
    if any(len(group) > 1 for group in groups):
        intervals.append("± standard deviation over seeds")
    title = f"Test accuracy, {' or '.join(intervals)}"
    return figures.accuracy_chart(accuracies, columns, title=title)


def _accuracy_interval(group: Sequence[Entry]) -> tuple[float, float, float]:
    if len(group) > 1:
        mean, std = mean_and_std(group, "accuracy")
        return mean, mean - std, mean + std
    accuracy = group[0].numbers["accuracy"]
    if accuracy is None:
        return math.nan, math.nan, math.nan
    num_images = len(group[0].scored.dataset)
    return accuracy, *classification.accuracy_interval(accuracy, num_images)


def _evaluated_split(entries: Sequence[Entry]) -> str:
    """What the evaluations during the trainings scored, for a label."""
    splits = {"test" if e.selected_on == "test" else "validation" for e in entries}
    return " or ".join(sorted(splits, reverse=True))


def draw_curves(entries: Sequence[Entry]) -> Figure:
    """Loss and accuracy of each run by epoch, in training and in its evaluations."""
    curves = {}
    for key in ("loss", "accuracy"):
        means = {e.name: evaluate.train_epochs(e.records, key) for e in entries}
        curves[key] = {
            "train, as logged": {
                name: (mean.epochs, mean.values) for name, mean in means.items()
            },
            _evaluated_split(entries): {
                entry.name: evaluation_curve(entry.records, "epoch", key)
                for entry in entries
            },
        }
    return figures.training_curves(curves["loss"], curves["accuracy"])


def draw_accuracy_over_time(groups: Sequence[Sequence[Entry]]) -> Figure:
    """Accuracy of the evaluations by training time, a recipe's seeds in one colour.

    The time is that of the processor where all runs were trained on a CPU.
    """
    entries = [entry for group in groups for entry in group]
    records = [record for entry in entries for record in entry.records]
    of_cpu = all("cpu_seconds" in record for record in records)
    clock = "cpu_seconds" if of_cpu else "seconds"
    return figures.accuracy_over_time(
        {
            group[0].name: [evaluation_curve(entry.records, clock) for entry in group]
            for group in groups
        },
        unit="CPU seconds" if of_cpu else "seconds",
        split=_evaluated_split(entries),
    )
