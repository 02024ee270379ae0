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

import contextlib
import functools
import signal
from collections.abc import Sequence

from vit_jax import config as configs
from vit_jax.errors import UserError
from vit_jax.parallel import commands, distributed


def main(arguments: Sequence[str]) -> None:
    """Parses the command line and trains."""
    parser = commands.make_parser("vit_jax.main", __doc__, commands.SETTINGS_EPILOG)
    parser.add_argument("--config", metavar="CONFIG[:VARIANT]", help="its file or name")
    parser.add_argument("--workdir", metavar="DIR", help="folder of the run")
    switch = functools.partial(parser.add_argument, action="store_true")
    switch("--resume_with_changes", help="resume although settings have changed")
    switch("--profile", help="record a few dispatches of training in WORKDIR/profile")
    switch("--list_keys", "--helpfull", help="print all settings, or --config's values")
    distributed.add_flags(parser)
    options, overrides = parser.parse_known_args(arguments)
    asked = options.config
    config = configs.load_config_file(asked) if asked else configs.default_config()
    flags = [f"--{name}" for name in vars(options)]
    config = configs.apply_overrides(config, overrides, flags)
    if options.list_keys:
        if not asked and not overrides:
            print(configs.describe_fields())
            return
        from vit_jax.training.resolve import describe_settings

        print(describe_settings(config))
        return
    configs.check_config(config)
    for name in ("config", "workdir"):
        if not getattr(options, name):
            raise UserError(
                f"--{name} is missing; a full command is python -m vit_jax.main "
                "--config=configs/vit_digits.py --workdir=runs/digits."
            )
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # It goes on without its terminal.
    if not options.distributed and options.process_id in (None, 0):
        with contextlib.suppress(OSError, UserError):
            print(f"starting {asked} in {options.workdir} ...", flush=True)
    distributed.start_from_flags(options)
    # Imported late: JAX takes seconds to load, and mistakes are reported before.
    from vit_jax.training.progress import say
    from vit_jax.training.summary import describe_results
    from vit_jax.training.train import train_and_evaluate

    switches = {x: getattr(options, x) for x in ("profile", "resume_with_changes")}
    results = train_and_evaluate(config, options.workdir, **switches)
    say(describe_results(results, options.workdir))


run = functools.partial(commands.run_command, main)

if __name__ == "__main__":
    run()
