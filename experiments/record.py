"""What a search found: a JSON file that grows, and the Markdown written from it."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.arms import Study
from experiments.launch import Job, Jobs
from experiments.summary import mean_std, show_mean_std
from vit_jax.compare import markdown_table
from vit_jax.errors import UserError
from vit_jax.folder import FREE_SETTINGS


def describe_run(jobs: Jobs, job: Job) -> dict[str, Any]:
    """What a finished run's row shows: its best hold-out scores, and no test score."""
    folder = jobs.folder(job)
    results, environment = folder.read("results"), folder.read("environment")
    evaluations = [r for r in folder.read_metrics() if r["split"] == "val"]
    best = max(evaluations, key=lambda r: (r["accuracy"], -r["loss"]))
    elsewhere = {*FREE_SETTINGS, "data.source", "seed"}
    return {
        "settings": {k: v for k, v in job.settings.items() if k not in elsewhere},
        "seed": results["seed"],
        "epochs": results["num_epochs"],
        "best_epoch": best["epoch"],
        "holdout_accuracy": best["accuracy"],
        "holdout_loss": best["loss"],
        "train_seconds": round(results["train_seconds"], 1),
        "wall_seconds": round(jobs.wall_seconds(job), 1),
        "images_per_second": round(results["images_per_second"]),
        "device": f"{results['num_devices']} x {results['device']}",
        "jax": environment["jax"],
    }


def read_record(file: pathlib.Path) -> dict[str, Any]:
    """The record so far, or an empty one."""
    if not file.exists():
        return {"learned": {}, "runs": {}, "final": {}}
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file} is damaged ({error}); mend or remove it.") from None


def write_record(file: pathlib.Path, record: Mapping[str, Any], study: Study) -> None:
    """FILE.json, and FILE.md with the tables."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    file.with_suffix(".md").write_text(describe_record(record, study))


def describe_record(record: Mapping[str, Any], study: Study) -> str:
    """Markdown: a table of arms, best first, one of runs, one of the final runs."""
    runs = record["runs"]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs.values():
        groups.setdefault((run["arm"], f"{run['epochs']:g}"), []).append(run)
    ranked = sorted(groups.items(), key=lambda item: _rank(item[1]), reverse=True)
    arms = [
        [
            arm, study.arms[arm][0], _show_changes(study.arms[arm][1]), epochs,
            show_mean_std(run["holdout_accuracy"] for run in group),
            f"{mean_std(run['holdout_loss'] for run in group)[0]:.4f}",
            f"{mean_std(run['train_seconds'] for run in group)[0]:.1f}",
            record["learned"].get(arm) or "",
        ]
        for (arm, epochs), group in ranked
    ]  # fmt: skip
    rows = [
        [
            name, _show_changes(run["settings"]),
            f"{100 * run['holdout_accuracy']:.2f}",
            f"{run['epochs']:g}", f"{run['train_seconds']:.1f}",
            f"{run['wall_seconds']:.1f}", f"{run['images_per_second']:,}",
            str(run["seed"]), run["device"],
        ]
        for name, run in runs.items()
    ]  # fmt: skip
    parts = [f"# {study.question}"]
    if runs:
        parts += [
            f"Each arm is `{study.config}` with one change. Ranked by mean hold-out "
            "accuracy (of each run's best evaluation), then by mean loss there; test "
            "scores played no part. Written by `python -m experiments.search`.",
            markdown_table(
                ["arm", "question", "change", "epochs", "hold-out accuracy (%)",
                 "hold-out loss", "training (s)", "learned"], arms,
            ),
            "## Runs",
            markdown_table(
                ["run", "settings", "hold-out (%)", "epochs", "training (s)",
                 "whole process (s)", "images/s", "seed", "device"], rows,
            ),
        ]  # fmt: skip
    if record["final"]:
        parts += ["## Final", describe_final(record["final"])]
    return "\n\n".join(parts) + "\n"


def _rank(group: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    accuracies, losses = zip(
        *((run["holdout_accuracy"], run["holdout_loss"]) for run in group), strict=True
    )
    return mean_std(accuracies)[0], -mean_std(losses)[0]


def _show_changes(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in changes.items()) or "none"


def describe_final(final: Mapping[str, Mapping[str, Any]]) -> str:
    """The Markdown table of --final: test scores, by config."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for run in final.values():
        groups.setdefault(run["config"], []).append(run)

    def show(group, key, form):
        return f"{mean_std(run[key] for run in group)[0]:{form}}"

    rows = [
        [
            config,
            show_mean_std(run["test_accuracy"] for run in group),
            show_mean_std(
                run["holdout_accuracy"] for run in group
                if run["holdout_accuracy"] is not None
            ),
            show(group, "epochs", ".4g"),
            show_mean_std((run["train_seconds"] for run in group), 1),
            show(group, "wall_seconds", ".1f"),
            show(group, "images_per_second", ",.0f"),
            group[0]["device"],
        ]
        for config, group in groups.items()
    ]  # fmt: skip
    note = (
        "Mean ± standard deviation (seeds). Training: without compilation, evaluation "
        "and checkpoints; whole process: with all of that."
    )
    head = ["config", "test accuracy (%)", "hold-out (%)", "epochs", "training (s)"]
    head += ["whole process (s)", "images/s", "device"]
    return f"{markdown_table(head, rows)}\n\n{note}"
