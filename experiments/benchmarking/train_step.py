"""The seconds of a train step: with augmentation, without it, and in PyTorch.

What is timed is `experiment.train_step` on batches picked on the device, once with all
of the config's augmentation, and once with normalisation only, which is also all that
PyTorch's step does: the ratio leaves augmentation out on both sides. The three take
turns.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from flax import linen as nn
from ml_collections import ConfigDict

from experiments.benchmarking import timing
from experiments.benchmarking.jax_step import (
    NUM_IMAGES,
    JaxStep,
    load_config,
    make_dataset,
    without_augmentation,
)
from experiments.launching.jobs import as_child
from vit_jax import augment, models
from vit_jax.errors import UserError
from vit_jax.models import backend


def measure(arguments: argparse.Namespace, overrides: list[str]) -> dict[str, Any]:
    """Measures one model; returns the machine, sizes, and what `summarize` gives."""
    machine = timing.describe_machine()
    if arguments.against:  # PyTorch's Muon is for matrices alone.
        overrides = ["--config.optim.muon_convolutions=False", *overrides]
    config = load_config(arguments.models, arguments.batch_size, overrides)
    dataset = make_dataset()
    num_steps = config.steps_per_dispatch or min(50, backend.max_steps_per_dispatch())
    augmented = JaxStep(config, dataset, num_steps)
    if arguments.against:
        require_counterpart(augmented.experiment.config, augmented.experiment.model)
    augmented()
    peak_bytes = timing.peak_memory_bytes()
    plain = JaxStep(without_augmentation(config), dataset, num_steps)
    plain()
    runs = {"augmented": augmented, "jax": plain}
    model, dtype = plain.experiment.model, plain.experiment.config.model.dtype
    shapes = plain.experiment.state_shapes
    num_params = models.count_params(shapes.params)
    # Settings on the command line go before the flags.
    config = plain.experiment.config
    image_shape = augment.input_shape(dataset.images.shape[1:], config.data.resize)
    macs = models.count_macs(model, image_shape)
    # The backward pass needs as many products for the inputs and for the weights.
    step_flops = 3 * 2 * macs * config.batch_size
    peak_flops = timing.measure_peak_flops(dtype)
    result = machine | {
        "model": arguments.models,
        "num_params": num_params,
        "dtype": dtype,
        "batch_size": config.batch_size,
        "steps_per_dispatch": num_steps,
        "compile_seconds": augmented.compile_seconds,
        "peak_memory_bytes": peak_bytes,
        "temp_bytes": augmented.temp_bytes,
        "flops_per_step": step_flops,
        "peak_flops_per_second": peak_flops,
    }
    if arguments.against:
        from experiments.benchmarking.torch_step import TorchStep

        torch_step = TorchStep(
            plain.experiment, num_params, dataset, num_steps,
            arguments.torch_mode or "default",
        )  # fmt: skip
        runs["torch"] = torch_step
        result["torch_mode"] = torch_step.mode
        result["torch_warmup_seconds"] = torch_step.warmup_seconds
    wall, busy = (
        {name: np.divide(values, num_steps).tolist() for name, values in times.items()}
        for times in timing.alternate(runs, arguments.repeats)
    )
    return result | summarize(result, wall, busy)


def require_counterpart(config: ConfigDict, model: nn.Module) -> None:
    """Refuses what PyTorch's step would compute otherwise, with as many parameters."""
    other = {
        "config.data.resize": config.data.resize,
        "config.num_devices above 1": config.num_devices > 1,
        "config.optim.trainable": config.optim.trainable != "all",
        "config.optim.muon_convolutions": config.optim.muon_convolutions,
        "bottlenecks": getattr(model, "bottleneck", False),
    }
    if isinstance(model, models.ViT):
        strides = model.stem == "conv" and model.stem_downsampling != "avg_pool"
        other |= {
            "a stem without average pooling": strides,
            "config.model.norm_position=post": model.norm_position != "pre",
            "another activation than GELU": model.activation != "gelu",
            "config.model.drop_path": model.drop_path,
        }
    for what, is_set in other.items():
        if is_set:
            raise UserError(
                f"--against=torch has no counterpart of {what}; leave it out."
            )


def summarize(
    result: dict[str, Any],
    seconds: dict[str, list[float]],
    cpu_seconds: dict[str, list[float]],
) -> dict[str, Any]:
    """Statistics of the seconds that a step took in each round.

    Returns:
      step_seconds and step_cpu_seconds of each way; images_per_second, epoch_seconds
      (of 50,000 images) and utilisation (fraction of peak_flops_per_second), all with
      full augmentation;
      augmentation_fraction of the step, from the medians; and, against PyTorch,
      torch_ratio: of the rounds' step times, JAX over PyTorch (below 1: JAX is faster),
      torch_ratio_of_medians, and torch_cpu_ratio, of the medians of CPU seconds.
    """
    cpu_described = {name: timing.describe(v) for name, v in cpu_seconds.items()}
    described = {name: timing.describe(values) for name, values in seconds.items()}
    median = {name: values["median"] for name, values in described.items()}
    images_per_second = result["batch_size"] / median["augmented"]
    summary = {
        "step_seconds": described,
        "step_cpu_seconds": cpu_described,
        "images_per_second": images_per_second,
        "epoch_seconds": NUM_IMAGES / images_per_second,
        "augmentation_fraction": 1 - median["jax"] / median["augmented"],
        "utilisation": result["flops_per_step"]
        / median["augmented"]
        / result["peak_flops_per_second"],
    }
    if "torch" in seconds:
        rounds = np.divide(seconds["jax"], seconds["torch"]).tolist()
        summary["torch_ratio"] = timing.describe(rounds)
        summary["torch_ratio_of_medians"] = median["jax"] / median["torch"]
        summary["torch_cpu_ratio"] = (
            cpu_described["jax"]["median"] / cpu_described["torch"]["median"]
        )
    return summary


def format_table(results: list[dict[str, Any]]) -> str:
    """A few lines on what was measured on, then a row for each model."""
    first = results[0]
    lines = [
        f"{first['device']} ({first['platform']}), {first['num_threads']} threads, "
        + ", ".join(f"{name} {v}" for name, v in first["versions"].items() if v),
        f"{first['dtype']}, batches of {first['batch_size']}, "
        f"{first['steps_per_dispatch']} steps a dispatch, matrix product "
        f"{first['peak_flops_per_second'] / 1e12:.3g} TFLOP/s, load "
        f"{first['load_average'][0]:.1f}",
        f"{'model':12} {'images/s':>9} {'step ms':>9} {'(quartiles)':>17} "
        f"{'augment':>8} {'epoch s':>8} {'use':>6} {'compile s':>9} {'memory MB':>9} "
        "JAX/PyTorch",
    ]
    for result in results:
        step = result["step_seconds"]["augmented"]
        low, high = (f"{1e3 * q:.4g}" for q in step["quartiles"])
        against = "not measured"
        if "torch_ratio" in result:
            low_ratio, high_ratio = result["torch_ratio"]["quartiles"]
            against = (
                f"{result['torch_ratio_of_medians']:.3f} "
                f"(rounds {low_ratio:.3f}-{high_ratio:.3f}), CPU time "
                f"{result['torch_cpu_ratio']:.3f}, {result['torch_mode']}"
            )
        lines.append(
            f"{result['model']:12} {result['images_per_second']:9.1f} "
            f"{1e3 * step['median']:9.2f} {f'({low}-{high})':>17} "
            f"{result['augmentation_fraction']:8.2%} {result['epoch_seconds']:8.2f} "
            f"{result['utilisation']:6.1%} {result['compile_seconds']:9.1f} "
            f"{result['peak_memory_bytes'] / 1e6:9.0f} {against}"
        )
    return "\n".join(lines)


def measure_apart(model: str, arguments: Sequence[str]) -> dict[str, Any]:
    """`measure` in a process of its own, which ends when this one does."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "result.json"
        command = [sys.executable, "-m", "experiments.benchmark", *arguments]
        command += [f"--models={model}", f"--result_file={file}"]
        subprocess.run(as_child(command), check=True)
        return json.loads(file.read_text())
