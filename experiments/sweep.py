"""Several learning rates and seeds of one config, trained side by side in one program.

python -m experiments.sweep --config=configs/vit_digits.py --out=runs/sweep.json \\
    --learning_rates=1e-3,3e-3 --seeds=3
python -m experiments.sweep --config=configs/vit_cifar.py --out=runs/sweep.json \\
    --learning_rates=5e-4,1e-3,2e-3 --num_epochs=40

A small model leaves most of a GPU idle, but several models at once do not. The members
are trained by the config's own train step under `vmap`. Each member has its own
parameters, random numbers and learning rate, and is, up to rounding, the run that
`vit_jax.main` would train with that seed and rate. (Muon's learning rate keeps its
ratio to the other one.) Every member trains to the end and is scored on the images held
out; the test split is not used. The same command goes on after the last evaluation of
a sweep that was interrupted, whose states are beside FILE.json in FILE.states.
"""

import argparse
import dataclasses
import json
import math
from collections.abc import Sequence

import jax
from ml_collections import ConfigDict

from experiments.launching.options import (
    LENGTHS,
    add_seeds,
    data_settings,
    json_path,
    positive_float,
    refuse_data_of_digits,
    refuse_place,
    refuse_seed,
)
from experiments.launching.summary import show_mean_std
from experiments.sweeping.loop import Done, restore, run_sweep, save
from experiments.sweeping.members import Member, Sweep, check_sweep
from vit_jax import data, models
from vit_jax.analysis.tables import markdown_table
from vit_jax.config import apply_overrides, load_config_file
from vit_jax.errors import UserError
from vit_jax.files import as_json, make_folder, write_file
from vit_jax.models import backend
from vit_jax.parallel.commands import SETTINGS_EPILOG, make_parser, run_command
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.lock import lock
from vit_jax.runs.user_code import add_user_code
from vit_jax.training.progress import say
from vit_jax.training.summary import summarize


def describe_start(sweep: Sweep) -> str:
    """The summary of a single run, and a row with the members' rates and seeds."""
    members = sweep.members
    num_params = models.count_params(sweep.states.params) // len(members)
    rates = dict.fromkeys(f"{member.learning_rate:g}" for member in members)
    seeds = dict.fromkeys(str(member.seed) for member in members)
    return (
        f"{summarize(sweep.experiment, num_params)}\n"
        f"  members  {len(members)}: learning rates {', '.join(rates)} in place of the "
        f"peak rate, seeds {', '.join(seeds)}"
    )


def describe(
    members: Sequence[Member], history: Sequence[Sequence[dict[str, float]]]
) -> str:
    """A Markdown table, one row for each rate; members without a number are counted."""
    rows = []
    for rate in dict.fromkeys(member.learning_rate for member in members):
        own = [
            h for m, h in zip(members, history, strict=True) if m.learning_rate == rate
        ]
        finite = [h for h in own if math.isfinite(h[-1]["loss"])]
        rows.append(
            [
                f"{rate:g}",
                show_mean_std(h[-1]["accuracy"] for h in finite),
                show_mean_std(max(r["accuracy"] for r in h) for h in finite),
                show_mean_std((h[-1]["loss"] for h in finite), 1),
                str(len(own) - len(finite)),
            ]
        )
    head = ["learning rate", "hold-out accuracy (%)", "best on the way", "loss"]
    return markdown_table([*head, "diverged"], rows)


def write_result(
    options: argparse.Namespace, config: ConfigDict, sweep: Sweep, done: Done
) -> None:
    """The file --out: settings, machine, members and their evaluations so far."""
    content = {
        "config": options.config,
        "settings": config.to_dict(),
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "steps": sweep.experiment.plan.total_steps,
        "train_seconds": done.seconds,
        "members": [
            {**dataclasses.asdict(member), "evaluations": records}
            for member, records in zip(sweep.members, done.history, strict=True)
        ],
    }
    write_file(options.out, json.dumps(as_json(content), indent=1) + "\n")


def _rates(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(
            f"--learning_rates={text} is no list of numbers; write for example "
            "--learning_rates=1e-3,3e-3."
        ) from None


def main(arguments: Sequence[str]) -> None:
    """Trains the grid of rates and seeds and writes table and JSON."""
    parser = make_parser("experiments.sweep", __doc__, epilog=SETTINGS_EPILOG)
    parser.add_argument("--config", required=True, metavar="CONFIG[:VARIANT]")
    parser.add_argument("--out", required=True, metavar="FILE.json", type=json_path)
    parser.add_argument("--learning_rates", help="default: the config's")
    add_seeds(parser, default=1)
    parser.add_argument(
        "--num_epochs", type=positive_float, help="shorter than the config says"
    )
    parser.add_argument("--data", metavar="DIR", help="official CIFAR-10 files")
    options, overrides = parser.parse_known_args(arguments)
    refuse_seed(overrides)
    if options.num_epochs:
        names = [f"--config.{key}" for key in LENGTHS]
        given = [a for a in overrides if a.partition("=")[0] in names]
        if given:
            raise UserError(
                f"--num_epochs and {given[0]} each give a length; leave one out."
            )
        lengths = dict.fromkeys(LENGTHS) | {"num_epochs": options.num_epochs}
        overrides += [f"--config.{key}={value}" for key, value in lengths.items()]
    refuse_place(options.data, overrides)
    config = apply_overrides(load_config_file(options.config), overrides)
    refuse_data_of_digits(options.data, config)
    for key, value in data_settings(options.data).items():
        config[key] = value
    check_sweep(config)
    add_user_code(config.code)
    rates = [config.optim.learning_rate]
    if options.learning_rates:
        rates = [*dict.fromkeys(_rates(options.learning_rates))]
    for rate in rates:  # A config checks each value that it is given.
        config.copy_and_resolve_references()["optim.learning_rate"] = rate
    members = [Member(rate, seed) for rate in rates for seed in range(options.seeds)]
    say(f"loading {data.dataset_name(config.data)} ...")
    splits = data.load(config.data)
    sweep = Sweep(config, splits, members)
    size = config.steps_per_dispatch or min(20, backend.max_steps_per_dispatch())
    make_folder(options.out.parent, "--out")
    say(describe_start(sweep))
    used = lock(options.out.with_suffix(".lock.json"), options.out, "--out")
    with used, Checkpoints(options.out.with_suffix(".states")) as checkpoints:
        done = restore(checkpoints, sweep)
        if done.step:
            say(f"going on from step {done.step}")

        def keep(done: Done) -> None:
            # A step that is not evaluated is one whose losses are not finite.
            if done.history[0] and done.history[0][-1]["step"] == done.step:
                save(checkpoints, sweep, done)
            write_result(options, config, sweep, done)

        done = run_sweep(sweep, steps_per_dispatch=size, done=done, keep=keep)
    write_result(options, config, sweep, done)
    say(f"{describe(members, done.history)}\n\nwritten to {options.out}")


if __name__ == "__main__":
    run_command(main)
