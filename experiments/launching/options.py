"""Options, settings and exit statuses that the commands that launch runs share."""

import argparse
import fnmatch
import math
import pathlib
import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from experiments.launching.jobs import Job, Jobs, as_child, stop
from vit_jax.config import load_config_file
from vit_jax.errors import UserError, require_known
from vit_jax.files import user_path
from vit_jax.training.progress import say

# Exit status when runs are left; `sysexits.h` calls it a temporary failure.
LEFT_OVER = 75
# Settings that give the length of a training; two of them exclude each other.
LENGTHS = ("num_epochs", "num_steps", "time_budget")


def add_arguments(parser: argparse.ArgumentParser, *, out: str) -> None:
    """The options that every launcher has."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="official CIFAR-10 files; else the config's source",
    )
    parser.add_argument("--out", default=out, help=f"folder of runs and tables ({out})")
    add_seeds(parser, default=3)
    parser.add_argument(
        "--parallel", type=positive_int, default=1, help="processes at a time (1)"
    )
    parser.add_argument(
        "--time_limit_seconds", type=float, default=math.inf,
        help="stop after that, and start nothing in the last minute; allow 90 s more "
        "for saving and packing; 0: only write the tables anew",
    )  # fmt: skip
    parser.add_argument("--small", action="store_true", help="tiny runs, as a test")
    parser.add_argument("--retry", action="store_true", help="failed runs as well")
    parser.add_argument("--dry_run", action="store_true", help="only show the commands")


def add_seeds(parser: argparse.ArgumentParser, *, default: int) -> None:
    """The option --seeds, the number of seeds."""
    parser.add_argument(
        "--seeds", type=_num_seeds, default=default, metavar="N",
        help=f"number of seeds ({default})",
    )  # fmt: skip


def refuse_seed(overrides: Sequence[str]) -> None:
    """Raises UserError for --config.seed, beside which --seeds would be ignored."""
    if any(argument.partition("=")[0] == "--config.seed" for argument in overrides):
        raise UserError(
            "--config.seed is given, but --seeds=N says how many seeds are trained; "
            "leave it out."
        )


def _num_seeds(text: str) -> int:
    try:
        return positive_int(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            f"{error}; write --seeds=3 for three seeds"
        ) from None


def positive_int(text: str) -> int:
    """An option's value that is a whole number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


def positive_float(text: str) -> float:
    """An option's value that is a finite number above 0, such as one of epochs."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a finite number above 0")
    return number


def json_path(text: str) -> pathlib.Path:
    """An option's value that names a JSON file.

    Others with its name and another ending are written beside it.
    """
    path = user_path(text)
    if path.suffix != ".json" or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} must be a file that ends in .json")
    return path


def choose(
    text: str | None, known: Collection[str], default: Iterable[str], what: str
) -> list[str]:
    """The names of an option "A,B*", each once; raises UserError for an unknown one.

    Args:
      text: names and patterns; None: the `default`.
      what: the names are of, for a message.
    """
    words = text.split(",") if text else default
    names = [name for word in words for name in fnmatch.filter(known, word) or [word]]
    for name in names:
        require_known(name, known, what, "take")
    return [*dict.fromkeys(names)]


def parse(
    parser: argparse.ArgumentParser, arguments: Sequence[str]
) -> argparse.Namespace:
    """The options, `settings` and `deadline`.

    `settings` are {"a.b": "value"} of each --config.a.b=value; `Job` checks the values.
    `deadline` is when --time_limit_seconds are over, on `time.monotonic`'s clock.

    Raises:
      UserError: an argument has another form.
    """
    options, overrides = parser.parse_known_args(arguments)
    refuse_seed(overrides)
    options.deadline = time.monotonic() + options.time_limit_seconds
    refuse_place(options.data, overrides)
    options.settings = {}
    for argument in overrides:
        key, equals, value = argument.partition("=")
        if not (key.startswith("--config.") and equals):
            raise UserError(
                f"Unknown argument {argument}; settings are written "
                "--config.group.name=value, and --help lists the rest."
            )
        options.settings[key.removeprefix("--config.")] = value
    return options


def refuse_place(
    folder: str | None, overrides: Sequence[str], flag: str = "--data"
) -> None:
    """Refuses settings that say where the data lie, where `flag` gives a folder."""
    for argument in overrides:
        key = argument.partition("=")[0].removeprefix("--config.")
        if folder and key in ("data.source", "data.dir", "data.download"):
            raise UserError(f"{flag} says where CIFAR lies; leave out {argument}.")


def refuse_data_of_digits(folder: str | None, config: ConfigDict) -> None:
    """Refuses --data where a config trains on scikit-learn's digits."""
    if folder and config.data.source == "digits":
        raise UserError(
            "--data is the folder of CIFAR-10, but the config trains on scikit-learn's "
            "digits; leave it out."
        )


def data_settings(folder: str | None) -> dict[str, Any]:
    """Settings that read the official files in `folder`; {} for None."""
    if folder is None:
        return {}
    place = str(user_path(folder).absolute())
    return {"data.source": "cifar_files", "data.dir": place, "data.download": False}


def data_flags(folder: str | None) -> list[str]:
    """`data_settings` as flags of the commands that read a finished run's data."""
    settings = data_settings(folder).items()
    return [f"--{key.replace('.', '_')}={value}" for key, value in settings]


def small_settings(
    config: str, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Settings with which a config trains on a CPU in seconds, as a test.

    Those `given` on the command line are left out; a length stands for all `LENGTHS`.
    """
    given = given or {}
    loaded = load_config_file(config).model
    model: dict[str, Any] = {"model.width": 4}
    if not loaded.name.startswith("resnet"):
        model = {"model.width": 16, "model.depth": 1, "model.num_heads": 2}
    if channels := loaded.stem_channels:
        # Three layers are enough for the patches of every config, up to 8x8 pixels.
        model["model.stem_channels"] = (8,) * min(3, len(channels))
    small = model | {
        "num_steps": 6,
        "batch_size": 32,
        "eval_every": "3 steps",
        "checkpoint_every": "3 steps",
        "log_every": "3 steps",
        "schedule.warmup": "2 steps",
        "data.train_per_class": 20,
    }
    if _has_length(given):
        del small["num_steps"]
    return {key: value for key, value in small.items() if key not in given}


def _has_length(settings: Mapping[str, Any]) -> bool:
    return any(settings.get(key) not in (None, "None") for key in LENGTHS)


def merge_settings(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of all layers; a later layer's value counts.

    A layer that gives a length of training also removes the lengths of those before.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        if _has_length(layer):
            merged = {k: v for k, v in merged.items() if k not in LENGTHS}
        merged |= layer
    return merged


def run_until(deadline: float, module: str, *arguments: str) -> int | None:
    """Exit status of `python -m MODULE ARGUMENTS`; None: no time, or it took too long.

    Args:
      deadline: on `time.monotonic`'s clock, infinity for none.
    """
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        return None
    command = as_child([sys.executable, "-m", module, *arguments])
    process = subprocess.Popen(command, process_group=0)
    try:
        return process.wait(None if math.isinf(seconds) else seconds)
    except subprocess.TimeoutExpired:
        stop([process], grace_seconds=5)
        return None


def report_left(jobs: Jobs, all_jobs: Sequence[Job], left: Sequence[Job]) -> int:
    """Prints which runs failed or are left, and returns the exit status."""
    failed = [job for job in all_jobs if jobs.error(job)]
    for job in failed:
        say(f"failed: {job.name}: {jobs.error(job)} (--retry: again)")
    if left:
        say(
            f"{len(left)} run(s) left: {', '.join(job.name for job in left)}\n"
            f"go on with: {shlex.join(sys.orig_argv)}"
        )
        return LEFT_OVER
    return 1 if failed else 0
