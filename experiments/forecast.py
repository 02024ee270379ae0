"""Forecasts what a config takes on a GPU, on a machine that has none.

    python -m experiments.forecast --config=configs/vit_cifar.py --target=h200
    python -m experiments.forecast --config=configs/vit_192x12.py --target=t4 \\
        --config.batch_size=1024 --out=runs/forecast

XLA compiles the run's programs for a description of the GPU, and their kernels, bytes
and operations are counted; the times follow from these and from public figures. Nothing
is measured: a forecast says what a change is worth and what to expect of a GPU before
it is rented. --out also writes forecast.json and forecast.md. Compilation takes a
minute or more for each of three programs.

It needs pip install -e '.[forecast]', which works without a GPU. The targets are files
in experiments/forecasting/targets/. Further arguments are settings, such as
--config.model.depth=4.
"""

import json
import shlex
from collections.abc import Sequence

from experiments.forecasting import targets
from vit_jax.config import apply_overrides, check_config, load_config_file
from vit_jax.files import make_folder, user_path, write_file
from vit_jax.parallel.commands import SETTINGS_EPILOG, make_parser, run_command


def main(arguments: Sequence[str]) -> None:
    """Prints the forecast that the arguments ask for, and writes it."""
    parser = make_parser("experiments.forecast", __doc__, SETTINGS_EPILOG)
    names = targets.target_names()
    parser.add_argument("--config", metavar="CONFIG[:VARIANT]", required=True)
    parser.add_argument(
        "--target", metavar="GPU", default="h200", help=", ".join(names)
    )
    parser.add_argument("--out", metavar="DIR", type=user_path, help="of both files")
    options, overrides = parser.parse_known_args(arguments)
    config = apply_overrides(
        load_config_file(options.config),
        overrides,
        [f"--{name}" for name in vars(options)],
    )
    check_config(config)
    if options.out:
        make_folder(options.out, "--out")
    target = targets.load_target(options.target)
    targets.set_environment()
    # Imported late: JAX reads the environment that was set.
    from experiments.forecasting import programs, report

    (device,) = targets.describe_devices(target)
    experiment = programs.make_described(config, device)
    result = {"config": shlex.join([options.config, *overrides])}
    result |= report.describe(experiment, target)
    text = report.as_markdown(result)
    print(text)
    if options.out:
        write_file(options.out / "forecast.json", json.dumps(result, indent=1) + "\n")
        write_file(options.out / "forecast.md", text)


if __name__ == "__main__":
    # Its programs are for a GPU that is not here.
    run_command(main, keep_programs=False)
