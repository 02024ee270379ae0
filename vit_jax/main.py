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
import contextlib
import functools
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from vit_jax.config import (
    apply_overrides,
    check_config,
    default_config,
    describe_fields,
    load_config_file,
)
from vit_jax.errors import UserError
from vit_jax.parallel import commands, distributed

_SELECTED = {
    "val": "selected on the images held out",
    "test": "selected on the test split itself",
    "nothing": "the last",
}


def _make_parser() -> argparse.ArgumentParser:
    parser = commands.make_parser("vit_jax.main", __doc__, commands.SETTINGS_EPILOG)
    parser.add_argument("--config", metavar="CONFIG[:VARIANT]", help="its file or name")
    parser.add_argument("--workdir", metavar="DIR", help="folder of the run")
    switch = functools.partial(parser.add_argument, action="store_true")
    switch("--resume_with_changes", help="resume although settings have changed")
    switch("--profile", help="record a few dispatches of training in WORKDIR/profile")
    switch(
        "--list_keys",
        "--helpfull",
        help="print every setting and its meaning; with --config, that config's values",
    )
    commands.add_process_flags(parser)
    return parser


def main(arguments: Sequence[str]) -> None:
    """Parses the command line and trains."""
    options, overrides = _make_parser().parse_known_args(arguments)
    if options.list_keys:
        print(_list_keys(options.config, overrides))
        return
    config = load_config_file(options.config) if options.config else default_config()
    config = apply_overrides(config, overrides, [f"--{name}" for name in vars(options)])
    check_config(config)
    for name in ("config", "workdir"):
        if not getattr(options, name):
            raise UserError(
                f"--{name} is missing; a full command is python -m vit_jax.main "
                "--config=configs/vit_digits.py --workdir=runs/digits."
            )
    # The training goes on when its terminal goes away.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # JAX and the libraries around it take seconds to load.
    if not options.distributed and options.process_id in (None, "0"):
        with contextlib.suppress(OSError, UserError):
            print(f"starting {options.config} in {options.workdir} ...", flush=True)
    distributed.start_from_flags(options)

    # Imported late, so that the mistakes above are reported at once.
    from vit_jax.training.progress import say
    from vit_jax.training.train import train_and_evaluate

    results = train_and_evaluate(
        config,
        options.workdir,
        resume_with_changes=options.resume_with_changes,
        profile=options.profile,
    )
    say(describe_results(results, options.workdir))


def describe_results(results: Mapping[str, Any], workdir: str) -> str:
    """The result of a run with its interval, and what to type next."""
    from vit_jax.metrics import classification

    test, command = results["test"], f"  python -m vit_jax.{{}} --workdir={workdir}"
    commands = [
        f"{command.format('evaluate')} --report",
        command.format("explain"),
        f"{command.format('predict')} photo.jpg",
    ]
    score = "accuracy not known"
    if test["accuracy"] is not None:
        low, high = classification.accuracy_interval(
            test["accuracy"], test["num_examples"]
        )
        score = (
            f"accuracy {test['accuracy']:.2%} (95% interval {low:.2%} to {high:.2%})"
        )
    elif "per_class" not in test:
        score = f"reconstruction loss {test['loss']:.4f}"
        commands = [
            "  python -m vit_jax.main --config=CONFIG --workdir=DIR "
            f"--config.pretrained.path={workdir}"
        ]
    return "\n".join(
        (
            f"test {score} on {test['num_examples']:,} images; checkpoint "
            f"of step {results['best_step']:,}, {_SELECTED[results['selected_on']]}; "
            f"{results['train_seconds']:.1f} s of training",
            f"results are in {workdir}; what to type next:",
            *commands,
        )
    )


def _list_keys(config: str | None, overrides: Sequence[str]) -> str:
    """All settings; those of a config with its own values and those of its model."""
    if not config:
        return describe_fields()
    values = apply_overrides(load_config_file(config), overrides)
    from vit_jax import models
    from vit_jax.runs.user_code import add_user_code

    add_user_code(values.code)
    values.model = models.model_settings(values.model)
    return describe_fields(values)


run = functools.partial(commands.run_command, main)

if __name__ == "__main__":
    run()
