"""What is trained, and what came out: a table of the rates, and the file --out."""

import argparse
import dataclasses
import json
import math
from collections.abc import Sequence

import jax
from ml_collections import ConfigDict

from experiments.launching.summary import show_mean_std
from experiments.sweeping.members import Member, Sweep
from experiments.sweeping.saved import Done
from vit_jax import models
from vit_jax.analysis.tables import markdown_table
from vit_jax.files import as_json, write_file
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
        "shared_order": options.shared_order,
        "steps": sweep.experiment.plan.total_steps,
        "train_seconds": done.seconds,
        "members": [
            {**dataclasses.asdict(member), "evaluations": records}
            for member, records in zip(sweep.members, done.history, strict=True)
        ],
    }
    write_file(options.out, json.dumps(as_json(content), indent=1) + "\n")
