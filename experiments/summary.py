"""What a run came to, and numbers of several seeds as one."""

from collections.abc import Iterable
from typing import Any

from experiments.launch import Job, Jobs
from vit_jax.metrics.paired import mean_and_std


def describe_run(jobs: Jobs, job: Job) -> dict[str, Any]:
    """A finished run's size, length, speed and machine; no score."""
    folder = jobs.folder(job)
    results, environment = folder.read("results"), folder.read("environment")
    return {
        "seed": results["seed"],
        "num_params": results["num_params"],
        "epochs": results["num_epochs"],
        "train_seconds": round(results["train_seconds"], 1),
        "wall_seconds": round(jobs.wall_seconds(job), 1),
        "images_per_second": round(results["images_per_second"]),
        "parallel": jobs.shared_with(job),
        "device": f"{results['num_devices']} x {results['device']}",
        **{key: environment[key] for key in ("jax", "flax", "optax", "python")},
    }


def show_mean_std(
    values: Iterable[float | None], factor: float = 100, form: str = ".2f"
) -> str:
    """ "93.41 ± 0.12 (3)": mean, deviation and number of what is known; else "–"."""
    values = [factor * value for value in values if value is not None]
    if not values:
        return "–"
    mean, std = mean_and_std(values)
    spread = f" ± {std:{form}}" if len(values) > 1 else ""
    return f"{mean:{form}}{spread} ({len(values)})"


def show_mean(values: Iterable[float | None], form: str) -> str:
    """The mean of what is known; else "–"."""
    values = [value for value in values if value is not None]
    return f"{mean_and_std(values)[0]:{form}}" if values else "–"
