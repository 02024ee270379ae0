"""How fast the train step is: this project's, its parts, and PyTorch's beside it.

    python -m experiments.benchmark
    python -m experiments.benchmark --models=vit_ti,resnet18 --batch_size=512 \\
        --against=torch --out=experiments/benchmarks
    python -m experiments.benchmark --attention
    python -m experiments.benchmark --augmentations

Further arguments are settings, such as --config.model.dtype=float32. Prints a table;
--out writes one JSON file for each model, or one for --attention or --augmentations.
--against=torch needs PyTorch (`pip install -e '.[benchmark]'`).

What is timed is `experiment.train_step` on batches picked on the device, once with all
of the config's augmentation, and once with normalisation only, which is also all that
PyTorch's step does: the ratio leaves augmentation out on both sides. The three take
turns. Each model has a process of its own, so that its memory is its own.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

# PyTorch shares the GPU in this process, and needs some of it for itself.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import numpy as np

from experiments import timing
from experiments.jax_step import (
    NUM_IMAGES,
    JaxStep,
    load_config,
    make_dataset,
    without_augmentation,
)
from vit_jax import models
from vit_jax.errors import UserError
from vit_jax.parallel.commands import SETTINGS_EPILOG, make_parser
from vit_jax.parallel.host_memory import keep_freed_memory


def measure(arguments: argparse.Namespace, overrides: list[str]) -> dict[str, Any]:
    """Everything about one model."""
    # As `vit_jax.main` does; PyTorch, in the same process, gains by it as well.
    kept = keep_freed_memory()
    machine = timing.describe_machine() | {"keeps_freed_memory": kept}
    config = load_config(arguments.models, arguments.batch_size, overrides)
    dataset = make_dataset()
    num_steps = arguments.steps_per_dispatch or (
        1 if jax.default_backend() == "cpu" else 50
    )
    augmented = JaxStep(config, dataset, num_steps)
    augmented()
    peak_bytes = timing.peak_memory_bytes()
    plain = JaxStep(without_augmentation(config), dataset, num_steps)
    plain()
    runs = {"augmented": augmented, "jax": plain}
    model, dtype = plain.experiment.model, plain.experiment.config.model.dtype
    shapes = jax.eval_shape(plain.experiment.init_state)
    num_params = models.count_params(shapes.params)
    macs = models.count_macs(model, dataset.images.shape[1:])
    # Backward: as many products again for the inputs, and for the weights.
    step_flops = 3 * 2 * macs * arguments.batch_size
    peak_flops = timing.measure_peak_flops(dtype)
    result = machine | {
        "model": arguments.models,
        "num_params": num_params,
        "dtype": dtype,
        "batch_size": arguments.batch_size,
        "steps_per_dispatch": num_steps,
        "compile_seconds": augmented.compile_seconds,
        "peak_memory_bytes": peak_bytes,
        "temp_bytes": augmented.temp_bytes,
        "flops_per_step": step_flops,
        "peak_flops_per_second": peak_flops,
    }
    if arguments.against:
        from experiments.torch_step import TorchStep

        torch_step = TorchStep(
            plain.experiment, num_params, dataset, num_steps, arguments.torch_mode
        )
        runs["torch"] = torch_step
        result["torch_mode"] = torch_step.mode
        result["torch_warmup_seconds"] = torch_step.warmup_seconds
    wall, busy = (
        {name: np.divide(values, num_steps).tolist() for name, values in times.items()}
        for times in timing.alternate(runs, arguments.repeats)
    )
    return result | summarize(result, wall, busy)


def summarize(
    result: dict[str, Any],
    seconds: dict[str, list[float]],
    cpu_seconds: dict[str, list[float]],
) -> dict[str, Any]:
    """What follows from the seconds a step took in each round.

    Returns:
      step_seconds and step_cpu_seconds of each way; images_per_second, epoch_seconds
      (of 50,000 images) and utilisation (share of peak_flops_per_second), all with
      full augmentation;
      augmentation_share of the step, from the medians; and, against PyTorch,
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
        "augmentation_share": 1 - median["jax"] / median["augmented"],
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
            f"{result['augmentation_share']:8.2%} {result['epoch_seconds']:8.2f} "
            f"{result['utilisation']:6.1%} {result['compile_seconds']:9.1f} "
            f"{result['peak_memory_bytes'] / 1e6:9.0f} {against}"
        )
    return "\n".join(lines)


def measure_apart(model: str, arguments: list[str]) -> dict[str, Any]:
    """`measure` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "result.json"
        command = [sys.executable, "-m", "experiments.benchmark", *arguments]
        subprocess.run(
            [*command, f"--models={model}", f"--result_file={file}"], check=True
        )
        return json.loads(file.read_text())


def parse_arguments() -> tuple[argparse.Namespace, list[str]]:
    """(options, overrides of the config)."""
    parser = make_parser("experiments.benchmark", __doc__, SETTINGS_EPILOG)
    parser.add_argument("--models", default="vit_ti,vit_192x9,resnet18")
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=10, help="rounds of dispatches")
    parser.add_argument(
        "--steps_per_dispatch", type=int, default=0, help="0: 1 on CPU, 50 elsewhere"
    )
    parser.add_argument("--against", choices=("torch",))
    parser.add_argument(
        "--torch_mode",
        default="default",
        choices=("eager", "default", "reduce-overhead", "max-autotune"),
        help="of torch.compile",
    )
    parser.add_argument("--out", metavar="DIR", help="folder for JSON files")
    parser.add_argument("--attention", action="store_true", help="attention alone")
    parser.add_argument("--augmentations", action="store_true", help="each alone")
    parser.add_argument("--result_file", help=argparse.SUPPRESS)
    return parser.parse_known_args()


def write_result(out: str | None, name: str, result: dict[str, Any]) -> None:
    """OUT/NAME_PLATFORM.json, with the user's command; nothing without OUT."""
    if out is None:
        return
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}_{result['platform']}.json"
    content = result | {"command": timing.describe_command()}
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def measure_all(names: list[str], out: str | None) -> int:
    """`measure` of each model, one after the other; 1 if any failed."""
    results = []
    for name in names:
        try:
            results.append(measure_apart(name, sys.argv[1:]))
        except subprocess.CalledProcessError as error:
            # It has printed why.
            print(f"{name} failed: exit status {error.returncode}", file=sys.stderr)
        else:
            write_result(out, name, results[-1])
    if results:
        print(format_table(results))
    return int(len(results) < len(names))


def main() -> int:
    """Measures, prints and writes what is asked for; 1 if a model failed."""
    arguments, overrides = parse_arguments()
    if arguments.result_file:
        result = measure(arguments, overrides)
        pathlib.Path(arguments.result_file).write_text(json.dumps(result))
        return 0
    names = arguments.models.split(",")
    for name in names:
        # Finds a slip before anything is measured.
        load_config(name, arguments.batch_size, overrides)
    if not (arguments.attention or arguments.augmentations):
        return measure_all(names, arguments.out)
    from experiments import benchmark_attention, benchmark_augment

    for asked, part in (
        (arguments.attention, benchmark_attention),
        (arguments.augmentations, benchmark_augment),
    ):
        if asked:
            result = part.measure(
                names, arguments.batch_size, arguments.repeats, overrides
            )
            write_result(arguments.out, part.NAME, result)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"error: {error}")
