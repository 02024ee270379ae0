"""Runs side by side, as files with tables and figures."""

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vit_jax.analysis import latency
from vit_jax.analysis.entries import (
    Entry,
    group_runs,
    load_entry,
    paired_tests,
    summarize_group,
)
from vit_jax.analysis.tables import markdown_table, write_csv
from vit_jax.errors import UserError
from vit_jax.figures import compare as figures
from vit_jax.figures import style

# Key of a run's numbers -> heading, factor, format, and whether its bars start at 0.
QUALITY = {
    "accuracy": ("test accuracy (%)", 100, ".2f", False),
    "loss": ("test loss (nats)", 1, ".4f", False),
    "mean_auc": ("mean AUC", 1, ".4f", False),
    "mean_f1": ("mean F1", 1, ".4f", False),
    "worst_f1": ("worst-class F1", 1, ".4f", False),
    "generalization_gap": ("gap, train split scored (points)", 100, ".2f", False),
    "logged_gap": ("gap, train as logged (points)", 100, ".2f", False),
}
COST = {
    "parameters_m": ("parameters (M)", 1, ".3g", True),
    "trainable_parameters_m": ("trainable parameters (M)", 1, ".3g", True),
    "flops_g": ("GFLOPs", 1, ".3g", True),
    "inference_ms": ("inference (ms)", 1, ".3g", True),
    "inference_ms_batch_128": ("inference, batch 128 (ms)", 1, ".3g", True),
    "epoch_seconds": ("epoch time (s)", 1, ".4g", True),
    "train_seconds": ("training (s)", 1, ".4g", True),
    "cpu_seconds": ("training (CPU s)", 1, ".4g", True),
    "epochs_to_90": ("epochs to ≥ 90% validation accuracy", 1, ".3g", True),
    "epochs_to_train_accuracy": ("epochs to ≥ {goal} train accuracy", 1, ".3g", True),
    "seconds_to_train_accuracy": ("seconds to ≥ {goal} train accuracy", 1, ".4g", True),
}
COLUMNS = QUALITY | COST
_SELECTED_ON = {
    "val": "validation split",
    "test": "test split",
    "nothing": "last epoch, nothing selected",
}
_QUALITY_NOTE = (
    "– : not known. The gap is the generalisation gap, train accuracy minus test "
    "accuracy. With the train split scored, the checkpoint classifies its images "
    "without augmentation; this is known after `python -m vit_jax.evaluate "
    "--workdir=RUN --report`. As logged, it is the mean over the training steps of the "
    "last epoch, with dropout and augmentation."
)
_COST_NOTE = (
    "GFLOPs are of one forward pass of one image; inference is the median time for one "
    "image with its quartiles, measured on the machine that compares, and not stated "
    "where the quartiles lie further apart than half the median. Epochs and seconds to "
    "a train accuracy go by the mean that each epoch's training steps logged. A run "
    "that selected on the test split has its validation accuracy from there."
)
_TEST_NOTE = (
    "Test accuracy of a run minus that of the first, on the same images: bootstrap "
    "interval over images and McNemar's exact test. They compare these trained models; "
    "the variation of a recipe shows only over several seeds."
)


def compare(
    workdirs: Sequence[str],
    out: pathlib.Path,
    moved: Mapping[str, str] | None = None,
    *,
    goal: float = 0.9,
) -> str:
    """Scores runs, writes tables and figures into `out`, and returns the Markdown.

    Args:
      workdirs: the runs' folders.
      out: the folder to write to.
      moved: see `run_data.load_splits`; it holds for all runs.
      goal: the training accuracy, 0 to 1, that epochs and seconds are counted to.

    Raises:
      UserError: fewer than two runs, or one given twice; and as `write_comparison`.
    """
    entries = [
        load_entry(workdir, name, moved, goal=goal)
        for workdir, name in zip(workdirs, name_runs(workdirs), strict=True)
    ]
    return write_comparison(entries, out)


def name_runs(workdirs: Sequence[str]) -> list[str]:
    """The folders' own names, or their paths if two share a name.

    Raises:
      UserError: there are fewer than two, or one is given twice.
    """
    paths = [pathlib.Path(workdir).resolve() for workdir in workdirs]
    if len(paths) < 2 or len(set(paths)) < len(paths):
        raise UserError(
            f"{len(paths)} run folders are given, {len(set(paths))} of them different, "
            "but a comparison needs at least two, each given once."
        )
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else list(workdirs)


def write_comparison(entries: Sequence[Entry], out: pathlib.Path) -> str:
    """Writes the tables and figures into `out` and returns the Markdown.

    Raises:
      UserError: the runs are of different datasets, or `out` cannot be written to.
    """
    tests = paired_tests(entries)
    groups = group_runs(entries)
    parts = ["# Comparison", _quality_table(groups), _QUALITY_NOTE]
    parts += ["## Cost and training", _cost_table(groups), _COST_NOTE]
    parts += [_load_note(entries)]
    parts += ["## Paired tests", paired_table(tests), _TEST_NOTE]
    markdown = "\n\n".join(parts)
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "comparison.md").write_text(markdown + "\n", encoding="utf-8")
        write_csv(out / "comparison.csv", [_flat_row(entry) for entry in entries])
        write_csv(out / "paired.csv", tests)
        style.save(draw_comparison(groups), out / "comparison.png")
        style.save(draw_curves(entries), out / "curves.png")
        style.save(draw_accuracy_over_time(groups), out / "accuracy_over_time.png")
    except OSError as error:
        raise UserError(
            f"{out} cannot be written to ({error.strerror}); give another --out."
        ) from None
    return markdown


def _group_name(group: Sequence[Entry]) -> str:
    return group[0].name + (f" (+{len(group) - 1})" if len(group) > 1 else "")


def _heading(key: str, goal: float) -> str:
    return COLUMNS[key][0].format(goal=f"{100 * goal:g}%")


def _quality_table(groups: Sequence[Sequence[Entry]]) -> str:
    goal = groups[0][0].goal
    head = ["run", "model", "seeds", "selected on"]
    rows = []
    for group in groups:
        cells = {key: format_number(group, key) for key in QUALITY}
        cells["worst_f1"] += f" ({_worst_classes(group)})"
        seeds = ", ".join(str(entry.seed) for entry in group)
        selected = {_SELECTED_ON.get(e.selected_on, e.selected_on) for e in group}
        first = [_group_name(group), group[0].model, seeds, ", ".join(sorted(selected))]
        rows.append([*first, *cells.values()])
    return markdown_table([*head, *(_heading(key, goal) for key in QUALITY)], rows)


def _cost_table(groups: Sequence[Sequence[Entry]]) -> str:
    head = ["run", *(_heading(key, groups[0][0].goal) for key in COST)]
    rows = []
    for group in groups:
        cells = {key: format_number(group, key) for key in COST}
        if len(group) == 1:
            cells |= _with_quartiles(cells, group[0].latency)
        rows.append([_group_name(group), *cells.values()])
    return markdown_table(head, rows)


def _with_quartiles(
    cells: Mapping[str, str], measured: Mapping[str, Any]
) -> dict[str, str]:
    keys = {"inference_ms": "batch_1", "inference_ms_batch_128": "batch_128"}
    both = {}
    for key, size in keys.items():
        low, high = (measured[size][f"{end}_quartile"] for end in ("lower", "upper"))
        both[key] = f"{cells[key]} ({low:.3g} to {high:.3g})"
    return both


def _load_note(entries: Sequence[Entry]) -> str:
    """What the machine did while each run's inference was timed."""
    lines = [f"* {e.name}: timed {latency.load_text(e.latency)}" for e in entries]
    return "\n".join(lines)


def _worst_classes(group: Sequence[Entry]) -> str:
    """The class with the lowest F1 score; of several seeds all that differ."""
    return ", ".join(dict.fromkeys(entry.worst_class for entry in group))


def format_number(group: Sequence[Entry], key: str) -> str:
    """A number of a group of runs, as mean ± standard deviation over its seeds."""
    _, factor, form, _ = COLUMNS[key]
    number = summarize_group(group)[key]
    mean, std = (factor * value for value in number)
    never = sum(entry.numbers[key] == math.inf for entry in group)
    if never:
        some = f" in {never} of {len(group)}" if never < len(group) else ""
        return f"never{some}"
    if math.isnan(mean):
        return "–"
    # Parameters and operations are the same for every seed.
    return f"{mean:{form}} ± {std:.2g}" if std > 0 else f"{mean:{form}}"


def paired_table(tests: Sequence[Mapping[str, Any]]) -> str:
    """The result of `paired_tests` as a Markdown table."""
    head = ["run", "against", "difference (points)", "95% interval"]
    head += ["only run right", "only other right", "McNemar p"]
    rows = [
        [
            row["run"],
            row["against"],
            f"{100 * row['difference']:+.2f}",
            f"{100 * row['low']:+.2f} to {100 * row['high']:+.2f}",
            str(row["only_run"]),
            str(row["only_against"]),
            # Below what a float64 holds.
            f"{row['p_value']:.3g}" if row["p_value"] else "< 1e-300",
        ]
        for row in tests
    ]
    return markdown_table(head, rows)


def _flat_row(entry: Entry) -> dict[str, Any]:
    return {
        "run": entry.name,
        "model": entry.model,
        "seed": entry.seed,
        **entry.numbers,
        "worst_class": entry.worst_class,
        "train_accuracy_goal": entry.goal,
        "selected_on": entry.selected_on,
    }


def draw_comparison(groups: Sequence[Sequence[Entry]]) -> Figure:
    """Each quantity of the tables that some run has, with its variation over seeds."""
    numbers = {_group_name(g): summarize_group(g) for g in groups}
    goal = groups[0][0].goal
    panels = {}
    for key, (_, factor, _, _) in COLUMNS.items():
        values = {
            name: (factor * one[key][0], factor * one[key][1])
            for name, one in numbers.items()
        }
        if not all(math.isnan(mean) for mean, _ in values.values()):
            panels[_heading(key, goal)] = values
    worst = {_group_name(group): _worst_classes(group) for group in groups}
    return figures.comparison_panels(
        panels,
        from_zero=[_heading(key, goal) for key in COLUMNS if COLUMNS[key][3]],
        notes={_heading("worst_f1", goal): worst},
        title="Comparison"
        + ", mean ± standard deviation over seeds" * (len(max(groups, key=len)) > 1),
    )


def _validation_curve(
    entry: Entry, x: str, y: str = "accuracy"
) -> tuple[np.ndarray, np.ndarray]:
    """`x` and `y` of a run's evaluations; NaN where a value was not finite."""
    records = [r for r in entry.records if r["split"] == "val"]
    return tuple(np.array([r[key] for r in records], float) for key in (x, y))


def draw_curves(entries: Sequence[Entry]) -> Figure:
    """Loss and accuracy of each run by epoch, in training and on validation."""
    curves = {}
    for key in ("loss", "accuracy"):
        means = {entry.name: entry.train_epochs(key) for entry in entries}
        curves[key] = {
            "train, as logged": {
                name: (mean.epochs, mean.values) for name, mean in means.items()
            },
            "validation": {
                entry.name: _validation_curve(entry, "epoch", key) for entry in entries
            },
        }
    return figures.training_curves(curves["loss"], curves["accuracy"])


def draw_accuracy_over_time(groups: Sequence[Sequence[Entry]]) -> Figure:
    """Validation accuracy by training time, seeds of a recipe in one colour.

    The time is that of the processor where all runs were trained on a CPU.
    """
    records = [record for group in groups for e in group for record in e.records]
    of_cpu = all("cpu_seconds" in record for record in records)
    clock = "cpu_seconds" if of_cpu else "seconds"
    return figures.accuracy_over_time(
        {
            group[0].name: [_validation_curve(entry, clock) for entry in group]
            for group in groups
        },
        unit="CPU seconds" if of_cpu else "seconds",
    )
