"""The report of a checkpoint on a split: its figures, and what it shows where."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vit_jax import data
from vit_jax.analysis import page, report_figures
from vit_jax.analysis.scored import Scored
from vit_jax.config.settings import SELECTED
from vit_jax.metrics import classification
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.run import Run
from vit_jax.training import curves as training_curves


def report_folder(folder: RunFolder, step: int, split: str) -> pathlib.Path:
    """Where figures and tables of a checkpoint's split go.

    It is the run's own folder for the best checkpoint on the test split, which the run
    is judged by, and a folder below it for any other.
    """
    if split == "test" and step == folder.read_results().get("best_step"):
        return folder.path
    return folder.path / "reports" / f"{split}-{step}"


def write_report(
    run: Run,
    scored: dict[str, Scored],
    scores: dict[str, dict[str, Any]],
    counts: np.ndarray | None,
    confusions: Sequence[tuple[int, int]],
) -> None:
    """Writes the report of the first split in `scored`; another one is subset_test.

    Args:
      scored: by the name of the split.
      scores: the numbers of these splits, as results.json holds them.
      counts: CIFAR-10H counts for the first split, if there are any.
      confusions: pairs of a true and a predicted class whose images are shown.
    """
    split, *others = scored
    run_folder = RunFolder(run.workdir)
    figures = training_curves.draw_history(run_folder, run.step)
    figures |= report_figures.draw_figures(scored[split], scores[split], split)
    if others:
        figures |= report_figures.draw_subset_test(*scored.values())
    if counts is not None:
        people = report_figures.draw_people(scored[split], counts)
        figures["disagreements_with_people"] = people
    for true, predicted in dict.fromkeys(confusions):
        gallery = report_figures.draw_confusion(scored[split], true, predicted)
        if not gallery:
            names = run.class_names
            print(f"no image of {names[true]} is predicted as {names[predicted]}")
        for name, figure in gallery.items():
            # Names of other classes may have become the same name of a file.
            taken = name in figures
            figures[f"{name}_{true}_{predicted}" if taken else name] = figure
    folder = report_folder(run_folder, run.step, split)
    for path in (folder / "figures").glob("*.png"):
        # Figures of an earlier report that this one does not replace.
        if page.caption(path.stem) and path.stem not in figures:
            path.unlink()
    results = run_folder.read_results()
    path = page.write_page(
        folder,
        title=f"{run.workdir.name}: {split} split, step {run.step:,}",
        summary=summarize(run, scores[split], split, results),
        scores={
            "split": split,
            "step": run.step,
            "selected_on": selected_on(run, results),
            "num_train_examples": results.get("num_train_examples"),
            **scores[split],
            **{name: scores[name] for name in others},
            "stages": results.get("stages", []),
        },
        config=run.config.to_dict(),
        environment=run_folder.read("environment"),
        figures=figures,
        tables=page.make_tables(run_folder.read_metrics(), scored[split]),
    )
    print(f"report: {path}")


def selected_on(run: Run, results: Mapping[str, Any]) -> str | None:
    """What selected the checkpoint: config.data.select_on; None: it was not selected.

    `results` are those of the run.
    """
    is_selected = run.step == results.get("best_step")
    return run.config.data.select_on if is_selected else None


def summarize(
    run: Run, scores: Mapping[str, Any], split: str, results: Mapping[str, Any]
) -> str:
    """The report in a sentence, which says so if `results` selected its checkpoint."""
    images = (
        f"the {scores['num_examples']:,} images of the {split} split of "
        f"{data.dataset_name(run.config.data)}"
    )
    model = f"a {run.config.model.name} with {scores['num_params']:,} parameters"
    checkpoint = f"the checkpoint of step {run.step:,}"
    if selected := selected_on(run, results):
        seconds = results["train_seconds"]
        time = f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:,.1f} minutes"
        model += f" trained for {time}"
        checkpoint += f", {SELECTED[selected]}"
        if split == selected == "val":
            checkpoint += ", which are these: that is optimistic"
    if scores["accuracy"] is None:
        return (
            f"How many of {images} {run.workdir.name}, {model}, classifies correctly "
            f"with {checkpoint}, is not known, because a logit is not finite."
        )
    low, high = classification.accuracy_interval(
        scores["accuracy"], scores["num_examples"]
    )
    return (
        f"{run.workdir.name}, {model}, classifies {scores['accuracy']:.2%} of {images} "
        f"correctly (95% interval {low:.2%} to {high:.2%}), with {checkpoint}."
    )
