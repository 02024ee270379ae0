"""Trains what a config file describes.

    python -m vit_jax.main --config=configs/vit_digits.py --workdir=runs/digits
    python -m vit_jax.main --config=configs/vit_cifar.py --workdir=runs/vit \\
        --config.batch_size=256 --config.seed=1

From any folder, --config=vit_digits names a config that comes with this package.

On several hosts, the same command on each, with a workdir that all of them share, and
--distributed under SLURM, Open MPI, Kubernetes or Cloud TPU; elsewhere, on host I of N,
--coordinator_address=FIRST_HOST:PORT --num_processes=N --process_id=I, from 0.
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
        "--config", metavar="CONFIG[:VARIANT]", help="what to train: its file or name"
    )
    parser.add_argument("--workdir", metavar="DIR", help="the run's folder")
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
        "--list_keys", action="store_true", help="print every setting and its default"
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
    distributed.start_from_flags(options)

    # Imported late: a mistake above is reported in a tenth of a second.
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


run = functools.partial(run_command, main)

if __name__ == "__main__":
    run()
