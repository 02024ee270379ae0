"""Measures the train step, PyTorch's beside it, and parts of both.

    python -m experiments.benchmark
    python -m experiments.benchmark --models=vit_ti,resnet18 --batch_size=512 \\
        --against=torch --out=experiments/benchmarks
    python -m experiments.benchmark --attention
    python -m experiments.benchmark --augmentations
    python -m experiments.benchmark --startup
    python -m experiments.benchmark --soak

The first two time whole train steps, each model in a process of its own, so that its
memory is its own. --attention times one layer of self-attention by each of its
implementations, --augmentations each augmentation, --startup the time from the command
of a training to its first step, and --soak reads what a long training holds over time:
memory, threads and open files. The command prints a table; --out writes one JSON file
for each model, or one for each of the other measurements. --against=torch needs PyTorch
(`pip install -e '.[benchmark]'`).

Further arguments are settings, such as --config.model.dtype=float32.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

# PyTorch shares the GPU in this process, and needs some of it for itself.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

from experiments.benchmarking import (
    attention,
    augmentations,
    soak,
    startup,
    train_step,
)
from experiments.benchmarking.jax_step import load_config
from experiments.launching.options import positive_int
from vit_jax.errors import UserError
from vit_jax.files import make_folder, user_path, write_file
from vit_jax.parallel.commands import SETTINGS_EPILOG, make_parser, run_command

DEFAULTS = {"models": "vit_ti,vit_192x9,resnet18", "batch_size": 128, "repeats": 10}


def parse_arguments(
    arguments: Sequence[str],
) -> tuple[argparse.Namespace, list[str]]:
    """(options, overrides of the config)."""
    parser = make_parser("experiments.benchmark", __doc__, SETTINGS_EPILOG)
    parser.add_argument("--models", metavar="A,B", help=f"({DEFAULTS['models']})")
    parser.add_argument(
        "--batch_size", type=positive_int, help=f"({DEFAULTS['batch_size']})"
    )
    parser.add_argument(
        "--repeats", type=positive_int,
        help=f"rounds of dispatches ({DEFAULTS['repeats']})",
    )  # fmt: skip
    parser.add_argument("--against", choices=("torch",))
    parser.add_argument(
        "--torch_mode",
        choices=("eager", "default", "reduce-overhead", "max-autotune"),
        help="of torch.compile; else default",
    )
    parser.add_argument("--out", metavar="DIR", type=user_path, help="of JSON files")
    parser.add_argument("--attention", action="store_true", help="one layer alone")
    parser.add_argument("--augmentations", action="store_true", help="each alone")
    parser.add_argument(
        "--startup", action="store_true", help="from the command to the first step"
    )
    parser.add_argument(
        "--soak", action="store_true", help="20,000 steps, and what they hold"
    )
    parser.add_argument("--result_file", help=argparse.SUPPRESS)
    options, overrides = parser.parse_known_args(arguments)
    ignored = {"startup": ("models", "batch_size"), "soak": tuple(DEFAULTS)}
    for mode, names in ignored.items():
        for name in names:
            if getattr(options, mode) and getattr(options, name) is not None:
                raise UserError(
                    f"--{name} has no effect on --{mode}, which starts a training of "
                    "configs/vit_digits.py; leave it out."
                )
    for name, value in DEFAULTS.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options, overrides


def write_result(out: pathlib.Path | None, name: str, result: dict[str, Any]) -> None:
    """OUT/NAME_PLATFORM.json, with the user's command; nothing without OUT."""
    if out is None:
        return
    file = out / f"{name}_{result['platform']}.json"
    command = shlex.join(["python", "-m", "experiments.benchmark", *sys.argv[1:]])
    write_file(file, json.dumps(result | {"command": command}, indent=1) + "\n")


def measure_models(
    names: list[str], out: pathlib.Path | None, arguments: Sequence[str]
) -> int:
    """Measures each model's train step, one after the other; 1 if any failed."""
    results = []
    for name in names:
        try:
            results.append(train_step.measure_apart(name, arguments))
        except subprocess.CalledProcessError as error:
            # The process has printed the reason.
            print(f"{name} failed: exit status {error.returncode}", file=sys.stderr)
        else:
            write_result(out, name, results[-1])
    if results:
        print(train_step.format_table(results))
    return int(len(results) < len(names))


def _require_effect(options: argparse.Namespace, asked: list[str]) -> None:
    """Refuses options that what is `asked` for would ignore."""
    if options.against and asked:
        raise UserError(
            "--against=torch compares whole train steps; leave it out beside --"
            f"{' and --'.join(asked)}."
        )
    if options.torch_mode and not options.against:
        raise UserError("--torch_mode is of --against=torch; give both or neither.")


def main(arguments: Sequence[str]) -> int:
    """Measures, prints and writes what the options ask for; 1 if a model failed."""
    options, overrides = parse_arguments(arguments)
    if options.result_file:
        result = train_step.measure(options, overrides)
        pathlib.Path(options.result_file).write_text(json.dumps(result))
        return 0
    parts = {
        "attention": attention.measure,
        "augmentations": augmentations.measure,
        "startup": lambda *_: startup.measure(options.repeats),
        "soak": lambda *_: soak.measure(overrides),
    }
    asked = [name for name in parts if getattr(options, name)]
    _require_effect(options, asked)
    if options.against and importlib.util.find_spec("torch") is None:
        raise UserError(
            "--against=torch needs PyTorch, which is not installed; "
            "`pip install -e '.[benchmark]'`."
        )
    names = options.models.split(",")
    # The soak is a training of another config.
    for name in names if asked != ["soak"] else ():
        # A mistake in a setting is found before anything is measured.
        load_config(name, options.batch_size, overrides)
    if options.startup and overrides:
        raise UserError(
            "--startup starts configs/vit_digits.py as it stands; leave out "
            f"{' '.join(overrides)}."
        )
    if options.out:
        make_folder(options.out, "--out")
    for name in asked:
        result = parts[name](names, options.batch_size, options.repeats, overrides)
        write_result(options.out, name, result)
    return 0 if asked else measure_models(names, options.out, arguments)


if __name__ == "__main__":
    # What compiles is timed, so it is not looked up among the programs kept on disk.
    run_command(main, keep_programs=False)
