"""The record of a search: a JSON file, and the Markdown tables written from it."""

import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.launching.jobs import Job
from experiments.launching.options import LENGTHS
from experiments.launching.summary import (
    config_digest,
    length_key,
    show_epochs,
    show_mean,
    show_mean_std,
    shown_settings,
)
from experiments.searching.arms import ALL_IMAGES, Study
from vit_jax.analysis.tables import markdown_table
from vit_jax.errors import UserError
from vit_jax.files import write_file
from vit_jax.metrics.paired import mean_and_std


def read_record(file: pathlib.Path, study: Study) -> dict[str, Any]:
    """The record so far, or an empty one.

    Raises:
      UserError: the file is damaged, or of another study.
    """
    record: dict[str, Any] = {"learned": {}, "runs": {}, "final": {}}
    if not file.exists():
        return record
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        record = {part: {**found[part]} for part in record}
        arms = {name: str(run["arm"]) for name, run in record["runs"].items()}
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{file} is no record of a search ({error!r}); mend or remove it, or give "
            "another --record."
        ) from None
    for name, arm in arms.items():
        if arm not in study.arms:
            raise UserError(
                f"{file} has the run {name} of an arm {arm}, which this study does not "
                "have; give another --record."
            )
    return record


def require_same_configs(
    runs: Mapping[str, Mapping[str, Any]], file: pathlib.Path
) -> None:
    """Raises UserError where a run's config has been changed since.

    Args:
      runs: a part of the record in `file`; rows without a digest are not judged.
    """
    for name, run in runs.items():
        digest = run.get("config_sha256")
        if digest and digest != config_digest(run["config"]):
            raise UserError(
                f"{file} has the run {name} of {run['config']}, which has other "
                "settings now, so that its new runs belong in another table; give "
                "another --record."
            )


def require_same_base(
    record: Mapping[str, Any], arms: Mapping[Job, str], study: Study, file: pathlib.Path
) -> None:
    """Raises UserError where the record's runs and `arms` do not belong in one ranking.

    Arms of other lengths have rows of their own; every other setting that is not of an
    arm has to be the same in all runs.

    Args:
      arms: {run to be made: its arm}.
      file: of the record.
    """
    planned = [(arm, _as_texts(shown_settings(job))) for job, arm in arms.items()]
    for run in record["runs"].values():
        before = _as_texts(run["settings"])
        for arm, now in planned:
            # An arm may also change what --config. changes in every run.
            aside = {*LENGTHS, *study.arms[arm][1], *study.arms[run["arm"]][1]}
            different = sorted(
                key
                for key in before.keys() | now.keys()
                if before.get(key) != now.get(key) and key not in aside
            )
            if different:
                raise UserError(
                    f"{file} has runs with other settings ({', '.join(different)}), "
                    "with which these would be ranked; give another --record."
                )


def require_same_rows(
    rows: Mapping[str, Mapping[str, Any]], jobs: Iterable[Job], file: pathlib.Path
) -> None:
    """Raises UserError where a run would replace a row of one with other settings.

    Args:
      rows: a part of the record in `file`, by the names of runs.
      jobs: runs to be made.
    """
    for job in jobs:
        now = _as_texts(shown_settings(job))
        before = _as_texts(rows[job.name]["settings"] if job.name in rows else {})
        if job.name in rows and before != now:
            different = sorted(dict(before.items() ^ now.items()))
            raise UserError(
                f"{file} has the run {job.name} with other settings "
                f"({', '.join(different)}), which this one would replace; give another "
                "--record."
            )


def _as_texts(settings: Mapping[str, Any]) -> dict[str, str]:
    return {key: json.dumps(value) for key, value in settings.items()}


def write_record(file: pathlib.Path, record: Mapping[str, Any], study: Study) -> None:
    """FILE.json, and FILE.md with the tables."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    markdown = describe_record(record, study)
    write_file(file, text)
    write_file(file.with_suffix(".md"), markdown)


def describe_record(record: Mapping[str, Any], study: Study) -> str:
    """Markdown: a table of arms, best first, one of runs, one of the final runs."""
    runs = record["runs"]
    parts = [f"# {study.question}"]
    if runs:
        rule = "mean hold-out accuracy (of each run's best evaluation), then by mean "
        rule += "loss there"
        if study.is_race:
            rule = "the fraction of runs that reached 94% on the hold-out, then by "
            rule += "their mean training seconds until then, then by accuracy"
        parts += [
            f"Each arm is `{study.config}` with one change. Ranked by {rule}; test "
            "scores played no part. Written by `python -m experiments.search`.",
            _describe_arms(runs, record["learned"], study),
            "## Runs",
            _describe_runs(runs),
        ]
    if record["final"]:
        parts += ["## Final", describe_final(record["final"])]
    return "\n\n".join(parts) + "\n"


def _describe_arms(
    runs: Mapping[str, Any], learned: Mapping[str, str], study: Study
) -> str:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs.values():
        groups.setdefault((run["arm"], length_key(run)), []).append(run)
    rank = _rank_race if study.is_race else _rank
    ranked = sorted(groups.items(), key=lambda item: rank(item[1]), reverse=True)
    rows = [
        [
            arm, study.arms[arm][0], _show_changes(study.arms[arm][1]),
            show_epochs(group),
            show_mean_std(run["holdout_accuracy"] for run in group),
            show_mean((run["holdout_loss"] for run in group), ".4f"),
            show_mean((run["num_params"] for run in group), ",.0f"),
            show_mean((run["train_seconds"] for run in group), ".1f"),
            show_mean_std((run["seconds_to_94"] for run in group), 1, ".1f"),
            learned.get(arm) or "",
        ]
        for (arm, _), group in ranked
    ]  # fmt: skip
    head = ["arm", "question", "change", "epochs", "hold-out accuracy (%)"]
    head += ["hold-out loss", "parameters", "training (s)", "until 94% (s)", "learned"]
    return markdown_table(head, rows)


def _describe_runs(runs: Mapping[str, Any]) -> str:
    rows = [
        [
            name, _show_changes(run["settings"]),
            f"{100 * run['holdout_accuracy']:.2f}",
            f"{run['epochs']:g}", f"{run['train_seconds']:.1f}",
            f"{run['wall_seconds']:.1f}", f"{run['images_per_second']:,}",
            str(run["parallel"]), str(run["seed"]), run["device"],
        ]
        for name, run in runs.items()
    ]  # fmt: skip
    head = ["run", "settings", "hold-out (%)", "epochs", "training (s)"]
    head += ["whole process (s)", "images/s", "runs at a time", "seed", "device"]
    return markdown_table(head, rows)


def _mean(group: Sequence[Mapping[str, Any]], key: str) -> float:
    return mean_and_std([run[key] for run in group])[0]


def _rank(group: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    return _mean(group, "holdout_accuracy"), -_mean(group, "holdout_loss")


def _rank_race(group: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    reached = [run for run in group if run["seconds_to_94"] is not None]
    seconds = _mean(reached, "seconds_to_94") if reached else 0.0
    return len(reached) / len(group), -seconds, *_rank(group)


def _show_changes(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in changes.items()) or "none"


def describe_final(final: Mapping[str, Mapping[str, Any]]) -> str:
    """The Markdown table of --final: test scores, by config, settings and length."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for run in final.values():
        images = "all" if run["all_images"] else "without the hold-out"
        aside = {*LENGTHS, *ALL_IMAGES}
        changes = {k: v for k, v in run["settings"].items() if k not in aside}
        key = run["config"], _show_changes(changes), images, length_key(run)
        groups.setdefault(key, []).append(run)
    rows = [
        [
            *key[:3],
            show_epochs(group),
            show_mean_std(run["test_accuracy"] for run in group),
            show_mean_std(run["holdout_accuracy"] for run in group),
            show_mean((run["num_params"] for run in group), ",.0f"),
            show_mean_std((run["train_seconds"] for run in group), 1),
            show_mean_std((run["seconds_to_94"] for run in group), 1, ".1f"),
            show_mean((run["wall_seconds"] for run in group), ".1f"),
            show_mean((run["images_per_second"] for run in group), ",.0f"),
            "/".join(sorted({str(run["parallel"]) for run in group})),
            "; ".join(sorted({run["device"] for run in group})),
        ]
        for key, group in groups.items()
    ]  # fmt: skip
    note = (
        "Mean ± standard deviation (seeds). Training: without compilation, evaluation "
        "and checkpoints; whole process: with all of that. Until 94%: training seconds "
        "before the first evaluation of at least 94%, on the hold-out; where all "
        "images were trained on, on the test split at the end."
    )
    head = ["config", "change", "trained on", "epochs", "test accuracy (%)"]
    head += ["hold-out (%)"]
    head += ["parameters", "training (s)", "until 94% (s)", "whole process (s)"]
    head += ["images/s", "runs at a time", "device"]
    return f"{markdown_table(head, rows)}\n\n{note}"
