"""Trains the model that a config file describes.

    python -m vit_jax.main --config=configs/vit_digits.py --workdir=runs/digits
    python -m vit_jax.main --config=configs/vit_cifar.py --workdir=runs/vit \\
        --config.batch_size=256 --config.seed=1

From any folder, --config=vit_digits names a config that comes with this package.

On several hosts, run the same command on each, with a workdir that all of them share
and --distributed under SLURM, Open MPI, Kubernetes or Cloud TPU. Elsewhere, host I of
N, counted from 0, needs --coordinator_address=FIRST_HOST:PORT --num_processes=N
--process_id=I.
"""

import argparse
import functools
from collections.abc import Sequence

from vit_jax.config import (
    apply_overrides,
    default_config,
    describe_fields,
    load_config_file,
)
from vit_jax.errors import UserError
from vit_jax.parallel import distributed
from vit_jax.parallel.commands import SETTINGS_EPILOG, make_parser, run_command

_PROCESS_FLAGS = {
    "coordinator_address": "HOST:PORT",
    "num_processes": "N",
    "process_id": "I",
}


def _make_parser() -> argparse.ArgumentParser:
    parser = make_parser("vit_jax.main", __doc__, epilog=SETTINGS_EPILOG)
    parser.add_argument(
        "--config", metavar="CONFIG[:VARIANT]", help="file or name of the config"
    )
    parser.add_argument("--workdir", metavar="DIR", help="folder of the run")
    parser.add_argument(
        "--resume_with_changes",
        action="store_true",
        help="resume although the settings differ from the folder's",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="record a few dispatches of training in WORKDIR/profile",
    )
    parser.add_argument(
        "--list_keys",
        "--helpfull",
        action="store_true",
        help="print every setting with its default and meaning",
    )
    for name, metavar in _PROCESS_FLAGS.items():
        parser.add_argument(f"--{name}", metavar=metavar, help="see above")
    parser.add_argument(
        "--distributed", action="store_true", help="ask the cluster for these three"
    )
    parser.add_argument(
        "--startup_timeout_seconds",
        metavar="N",
        default="300",
        help="how long the processes wait for each other to start (%(default)s)",
    )
    return parser


def main(arguments: Sequence[str]) -> None:
    """Parses the command line and trains."""
    options, overrides = _make_parser().parse_known_args(arguments)
    if options.list_keys:
        print(describe_fields())
        return
    config = load_config_file(options.config) if options.config else default_config()
    flags = [f"--{name}" for name in vars(options)]
    config = apply_overrides(config, overrides, flags)
    for name in ("config", "workdir"):
        if not getattr(options, name):
            raise UserError(
                f"--{name} is missing; a full command is python -m vit_jax.main "
                "--config=configs/vit_digits.py --workdir=runs/digits."
            )
    _start_processes(options)

    # Imported late, so that the mistakes above are reported at once.
    from vit_jax.training.progress import say
    from vit_jax.training.train import train_and_evaluate

    results = train_and_evaluate(
        config,
        options.workdir,
        resume_with_changes=options.resume_with_changes,
        profile=options.profile,
    )
    test = results["test"]
    say(
        f"test accuracy {test['accuracy']:.2%} on {test['num_examples']:,} images "
        f"(step {results['best_step']}, selected on {results['selected_on']}); "
        f"{results['train_seconds']:.1f} s of training; results in {options.workdir}"
    )


def _start_processes(options: argparse.Namespace) -> None:
    """Connects with the other processes, if the flags say that there are any."""
    given = {name: getattr(options, name) for name in _PROCESS_FLAGS}
    missing = [f"--{name}" for name, value in given.items() if value is None]
    if options.distributed and len(missing) < len(given):
        raise UserError(
            "--distributed asks the cluster for the address, number and id of the "
            "processes; give these, or --distributed, not both."
        )
    if not options.distributed and 0 < len(missing) < len(given):
        raise UserError(
            f"{' and '.join(missing)} is missing; several processes need all of "
            f"{', '.join(f'--{name}' for name in given)}."
        )
    if options.distributed or not missing:
        distributed.start(
            given["coordinator_address"],
            _whole_number("num_processes", given["num_processes"]),
            _whole_number("process_id", given["process_id"]),
            timeout_seconds=_whole_number(
                "startup_timeout_seconds", options.startup_timeout_seconds
            ),
        )


def _whole_number(name: str, text: str | None) -> int | None:
    if text is not None and not text.isdecimal():
        raise UserError(f"--{name} is {text}, but must be a whole number.")
    return None if text is None else int(text)


run = functools.partial(run_command, main)

if __name__ == "__main__":
    run()
