"""The description of a finished run, and means over several seeds."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from experiments.launching.jobs import Job, Jobs
from vit_jax.config import load_config_file
from vit_jax.files import as_json
from vit_jax.metrics.paired import mean_and_std
from vit_jax.runs.folder import FREE_SETTINGS, RunFolder
from vit_jax.runs.ranking import rank
from vit_jax.runs.records import evaluations

# The accuracy that the studies of fast training want to reach.
TARGET = 0.94


def describe_run(folder: RunFolder) -> dict[str, Any]:
    """A finished run's hold-out scores, size, length, speed and machine.

    There is no test score in it, so that nothing is chosen on the test split by
    accident; `results.json` holds that score.

    Args:
      folder: of a run that `Jobs` has started.

    Returns:
      Numbers and strings by name. The hold-out scores, of the best evaluation there,
      are None where no images were held out. "seconds_to_94" are the training seconds
      before the first hold-out evaluation of at least `TARGET`; None if there was none.
    """
    results, environment = folder.read("results"), folder.read("environment")
    launched = folder.read("job")
    requested = launched.get("requested", {})
    held_out = []
    if results["selected_on"] == "val":
        held_out = evaluations(folder.read_metrics())
    best = max(
        held_out,
        key=lambda r: rank(r["accuracy"], r["loss"]),
        default={"accuracy": None, "loss": None},
    )
    # An accuracy is None where the logits were not finite.
    reached = (r["seconds"] for r in held_out if (r["accuracy"] or 0) >= TARGET)
    return {
        "seed": results["seed"],
        "selected_on": results["selected_on"],
        "best_epoch": results["best_epoch"],
        "holdout_accuracy": best["accuracy"],
        "holdout_loss": best["loss"],
        "seconds_to_94": next(reached, None),
        "num_params": results["num_params"],
        "epochs": results["num_epochs"],
        # A number of steps replaces the budget.
        "time_budget": (not requested.get("num_steps") and requested.get("time_budget"))
        or None,
        "compile_seconds": results.get("compile_seconds"),
        "train_seconds": round(results["train_seconds"], 1),
        "cpu_seconds": results.get("cpu_seconds"),
        "wall_seconds": round(launched["wall_seconds"], 1),
        "images_per_second": round(results["images_per_second"]),
        "parallel": launched.get("parallel", 1),
        "device": f"{results['num_devices']} x {_device(results, environment)}",
        **{key: environment[key] for key in ("jax", "flax", "optax", "python")},
    }


def _device(results: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    """The device's name; JAX calls every processor "cpu"."""
    name = results["device"]
    return environment.get("cpu") or name if name == "cpu" else name


def describe_job(jobs: Jobs, job: Job) -> dict[str, Any]:
    """`describe_run` of a finished job, its config and what was changed of that."""
    return {
        "config": job.config,
        "config_sha256": config_digest(job.config),
        "settings": shown_settings(job),
    } | describe_run(jobs.folder(job))


def config_digest(config: str) -> str:
    """SHA-256 of the settings of a config, FILE.py or FILE.py:variant."""
    settings = json.dumps(as_json(load_config_file(config).to_dict()), sort_keys=True)
    return hashlib.sha256(settings.encode()).hexdigest()


def shown_settings(job: Job) -> dict[str, Any]:
    """The settings of a job that are not those of every run."""
    elsewhere = {*FREE_SETTINGS, "data.source", "seed"}
    return {k: v for k, v in job.settings.items() if k not in elsewhere}


def describe_place(jobs: Jobs, job: Job, place: Mapping[str, Any]) -> dict[str, Any]:
    """A line of a table: the run's place there, its error, and what it has reached.

    "test_accuracy" and the keys of `describe_job` are absent until it is finished.
    """
    line = {**place, "error": jobs.error(job)}
    if not jobs.is_finished(job):
        return line
    test = jobs.folder(job).read("results")["test"]
    return line | {"test_accuracy": test["accuracy"]} | describe_job(jobs, job)


def show_mean_std(
    values: Iterable[float | None], factor: float = 100, form: str = ".2f"
) -> str:
    """ "93.41 ± 0.12 (3)": mean, standard deviation and number of the values.

    Values that are None are left out; "–" stands for no value at all.
    """
    values = [factor * value for value in values if value is not None]
    if not values:
        return "–"
    mean, std = mean_and_std(values)
    spread = f" ± {std:{form}}" if len(values) > 1 else ""
    return f"{mean:{form}}{spread} ({len(values)})"


def show_epochs(runs: Iterable[Mapping[str, Any]]) -> str:
    """The length of runs in epochs, or the shortest and the longest of them.

    A time budget gives each run a length of its own.
    """
    lengths = [f"{epochs:.4g}" for epochs in sorted(run["epochs"] for run in runs)]
    return " to ".join(dict.fromkeys((lengths[0], lengths[-1])))


def length_key(run: Mapping[str, Any]) -> str:
    """What runs of the same length have in common: a time budget, or their epochs."""
    return run.get("time_budget") or f"{run['epochs']:.4g}"


def show_mean(values: Iterable[float | None], form: str) -> str:
    """The mean of the values that are not None; "–" for no value at all."""
    values = [value for value in values if value is not None]
    return f"{mean_and_std(values)[0]:{form}}" if values else "–"
