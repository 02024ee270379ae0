"""Runs side by side: one table, their curves, and paired tests of the difference.

python -m vit_jax.compare RUN RUN... --out=DIR

Each run's best checkpoint is scored on the test split. Runs whose settings differ only
in the seed share one row, mean ± standard deviation. DIR gets comparison.md and
comparison.png, comparison.csv (one row for each run), paired.csv, curves.png and
accuracy_over_time.png.
"""

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vit_jax import comparison
from vit_jax.commands import make_parser, run_command
from vit_jax.comparison import Entry
from vit_jax.errors import UserError
from vit_jax.evaluate import DATA_EPILOG
from vit_jax.figures import compare as figures
from vit_jax.figures import style
from vit_jax.tables import markdown_table, write_csv

# Key of a run's numbers -> heading, factor, format, and whether its bars start at 0.
COLUMNS = {
    "accuracy": ("test accuracy (%)", 100, ".2f", False),
    "loss": ("test loss (nats)", 1, ".4f", False),
    "parameters_m": ("parameters (M)", 1, ".3g", True),
    "flops_g": ("GFLOPs", 1, ".3g", True),
    "inference_ms": ("inference (ms)", 1, ".3g", True),
    "inference_ms_batch_128": ("inference, batch 128 (ms)", 1, ".3g", True),
    "mean_auc": ("mean AUC", 1, ".4f", False),
    "mean_f1": ("mean F1", 1, ".4f", False),
    "worst_f1": ("worst-class F1", 1, ".4f", False),
    "generalization_gap": ("generalisation gap (points)", 100, ".2f", False),
    "epoch_seconds": ("epoch time (s)", 1, ".3g", True),
    "epochs_to_90": ("epochs to ≥ 90%", 1, ".3g", True),
    "train_seconds": ("training (s)", 1, ".4g", True),
}
_NOTE = (
    "– : 90% never reached on the validation split, or not known; the generalisation "
    "gap is known after `python -m vit_jax.evaluate --workdir=RUN --report`. GFLOPs "
    "are of one forward pass of one image; inference is the time for one image, "
    "measured on the machine that compares."
)
_TEST_NOTE = (
    "Test accuracy of a run minus that of the first, on the same images: bootstrap "
    "interval over images and McNemar's exact test. They compare these trained models; "
    "how far a recipe scatters, seeds tell."
)


def compare(entries: Sequence[Entry], out: pathlib.Path) -> str:
    """Writes all files named above into `out` and returns the Markdown.

    Raises:
      UserError: the runs are of different datasets, or `out` cannot be written to.
    """
    tests = comparison.paired_tests(entries)
    groups = comparison.group_runs(entries)
    first = ("# Comparison", _group_table(groups), _NOTE)
    second = ("## Paired tests", _test_table(tests), _TEST_NOTE)
    markdown = "\n\n".join((*first, *second))
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


def _group_table(groups: Sequence[Sequence[Entry]]) -> str:
    head = ["run", "model", "seeds", *(c[0] for c in COLUMNS.values()), "selected on"]
    rows = []
    for group in groups:
        numbers = comparison.summarize_group(group)
        seeds = ", ".join(str(entry.seed) for entry in group)
        cells = [
            _show(numbers[key], factor, form)
            for key, (_, factor, form, _) in COLUMNS.items()
        ]
        first = group[0]
        rows.append([_group_name(group), first.model, seeds, *cells, first.selected_on])
    return markdown_table(head, rows)


def _show(number: tuple[float, float], factor: float, form: str) -> str:
    mean, std = (factor * value for value in number)
    if math.isnan(mean):
        return "–"
    # Parameters and operations are the same for every seed.
    return f"{mean:{form}} ± {std:.2g}" if std > 0 else f"{mean:{form}}"


def _test_table(tests: Sequence[Mapping[str, Any]]) -> str:
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
        "selected_on": entry.selected_on,
    }


def draw_comparison(groups: Sequence[Sequence[Entry]]) -> Figure:
    """Every quantity of the table that some run has, with its scatter over seeds."""
    numbers = {_group_name(g): comparison.summarize_group(g) for g in groups}
    panels = {}
    for key, (heading, factor, _, _) in COLUMNS.items():
        values = {
            name: (factor * one[key][0], factor * one[key][1])
            for name, one in numbers.items()
        }
        if not all(math.isnan(mean) for mean, _ in values.values()):
            panels[heading] = values
    return figures.comparison_panels(
        panels,
        from_zero=[heading for heading, _, _, bars in COLUMNS.values() if bars],
        title="Comparison"
        + ", mean ± standard deviation over seeds" * (len(max(groups, key=len)) > 1),
    )


def _validation_curve(entry: Entry, key: str) -> tuple[np.ndarray, np.ndarray]:
    """`key` and accuracy of a run's evaluations; NaN where a loss was not finite."""
    records = [r for r in entry.records if r["split"] == "val"]
    x, y = (np.array([r[k] for r in records], float) for k in (key, "accuracy"))
    return x, y


def draw_curves(entries: Sequence[Entry]) -> Figure:
    """Validation accuracy of each run by epoch and by seconds of training."""
    by_epoch, by_seconds = (
        {entry.name: _validation_curve(entry, key) for entry in entries}
        for key in ("epoch", "seconds")
    )
    return figures.accuracy_curves(by_epoch, by_seconds, split="validation")


def draw_accuracy_over_time(groups: Sequence[Sequence[Entry]]) -> Figure:
    """Validation accuracy by seconds of training, seeds of a recipe in one colour."""
    return figures.accuracy_over_time(
        {
            group[0].name: [_validation_curve(e, "seconds") for e in group]
            for group in groups
        }
    )


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
    options, overrides = parser.parse_known_args(arguments)
    names = _names(options.runs)
    entries = [
        comparison.load_entry(workdir, name, overrides)
        for workdir, name in zip(options.runs, names, strict=True)
    ]
    print(compare(entries, pathlib.Path(options.out)))


if __name__ == "__main__":
    run_command(main)
