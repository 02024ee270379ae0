"""Trains what a config file describes.

    python -m vit_jax.main --config=configs/vit_digits.py --workdir=runs/digits
    python -m vit_jax.main --config=configs/vit_cifar.py --workdir=runs/vit \\
        --config.batch_size=256 --config.seed=1
"""

import argparse
from collections.abc import Sequence

from vit_jax.commands import run_command
from vit_jax.config import (
    apply_overrides,
    default_config,
    describe_fields,
    load_config_file,
)
from vit_jax.errors import UserError


def main(arguments: Sequence[str]) -> None:
    """Parses the command line and trains."""
    parser = argparse.ArgumentParser(
        prog="python -m vit_jax.main",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Settings: --config.group.name=value, any number of them.",
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE.py[:VARIANT]", help="what to train")
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
    options, overrides = parser.parse_known_args(arguments)
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

    # Imported late: a mistake above is reported in a tenth of a second.
    from vit_jax.progress import say
    from vit_jax.train import train_and_evaluate

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


if __name__ == "__main__":
    run_command(main)
