"""Runs side by side, as files with tables and figures."""

import argparse
import pathlib
from collections.abc import Mapping, Sequence

from vit_jax.analysis import compared, latency
from vit_jax.analysis.entries import Entry, group_runs, load_entry, paired_tests
from vit_jax.analysis.tables import write_csv
from vit_jax.errors import UserError
from vit_jax.figures import style
from vit_jax.files import make_folder, write_file
from vit_jax.runs.folder import RunFolder


def compare(options: argparse.Namespace, moved: Mapping[str, str]) -> str:
    """Scores runs, writes tables and figures, and returns the Markdown.

    `moved` holds for all runs, see `run_data.load_splits`.

    Raises:
      UserError: fewer than two runs, or one given twice; and as `write_comparison`.
    """
    names = name_runs(options.runs)
    # A folder without a run is reported before any run is scored.
    for workdir in options.runs:
        RunFolder(workdir).read("config")
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
            f"{len(paths)} were given, {len(set(paths))} of them different."
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
    # What the machine did while each run's inference was timed.
    loads = [f"* {e.name}: timed {latency.load_text(e.latency)}" for e in entries]
    parts = ["# Comparison", compared.quality_table(groups), compared.QUALITY_NOTE]
    parts += ["## Cost and training", compared.cost_table(groups), compared.COST_NOTE]
    parts += ["\n".join(loads)]
    parts += ["## Paired tests", compared.paired_table(tests), compared.TEST_NOTE]
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
        ("comparison", compared.draw_comparison(groups)),
        ("curves", compared.draw_curves(entries)),
        ("accuracy_over_time", compared.draw_accuracy_over_time(groups)),
    ):
        style.save(figure, out / f"{name}.png")
    return markdown
