"""The rows of the table, and the runs that fill it."""

import argparse
import dataclasses
import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any

from experiments.launching.jobs import Job
from experiments.launching.options import small_settings
from vit_jax.config import load_config_file
from vit_jax.errors import require_known


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
      config: a file under configs/, with its variant.
      reported: test accuracy in %, the highest where the study gives several; or None.
      selects_on: what chose the study's epoch, "test" or "nothing" (the last epoch).
    """

    config: str
    reported: float | None
    selects_on: str


ROWS = {
    "vit_192x9": Row("configs/vit_192x9.py", 86.39, "test"),
    # The study does not say how the epoch was chosen; its ViT suggests this.
    "vit_192x9_resnet18": Row("configs/vit_192x9.py:resnet18", 93.64, "test"),
    "vit_128x6": Row("configs/vit_128x6.py", 65.0, "nothing"),
    "vit_128x6_sinusoidal": Row("configs/vit_128x6.py:sinusoidal", 70.50, "nothing"),
    # The study does not say it either, but names a best epoch of both.
    "vit_192x12": Row("configs/vit_192x12.py", 86.70, "test"),
    "vit_192x12_resnet18": Row("configs/vit_192x12.py:resnet18", 93.43, "test"),
    "vit_256x6_baseline": Row("configs/vit_256x6.py:baseline", 66.73, "nothing"),
    "vit_256x6": Row("configs/vit_256x6.py", 76.23, "nothing"),
}
# Only with --only: nothing is reported for them.
EXTRA_ROWS = {
    "vit_192x9_resnet18_milestones": Row(
        "configs/vit_192x9.py:resnet18_milestones", None, "test"
    ),
    "vit_192x12_plain": Row("configs/vit_192x12.py:plain", None, "test"),
    **{
        f"vit_256x6_{change}": Row(f"configs/vit_256x6.py:{change}", None, "nothing")
        for change in ("augment", "decay", "cosine", "longer")
    },
}
PROTOCOLS = ("original", "holdout")


def protocol_settings(row: Row, protocol: str) -> dict[str, Any]:
    """The settings of one of `PROTOCOLS` for a row."""
    number, selects_on = 5000, "val"
    if protocol == "original":
        number, selects_on = 0, row.selects_on
    return {
        "data.validation": number,
        "data.validation_fraction": 0.0,
        "data.select_on": selects_on,
    }


def make_jobs(
    options: argparse.Namespace, shared: Mapping[str, Any]
) -> dict[Job, tuple[str, str]]:
    """{run: (row, protocol)}, in the order of training: first one seed of every row.

    `shared` are settings of every run.
    """
    known = ROWS | EXTRA_ROWS
    names = _choose(options.only, known, [*ROWS])
    protocols = _choose(options.protocols, PROTOCOLS, PROTOCOLS)
    # Each study's own seed comes first.
    first_seeds = {name: load_config_file(known[name].config).seed for name in names}
    jobs = {}
    for number in range(options.seeds):
        for protocol in protocols:
            for name in names:
                row, seed = known[name], first_seeds[name] + number
                settings = {**shared, **protocol_settings(row, protocol)}
                if options.small:
                    settings |= small_settings(row.config)
                job = Job(
                    f"{name}-{protocol}-s{seed}", row.config, settings | {"seed": seed}
                )
                jobs[job] = name, protocol
    return jobs


def _choose(text: str | None, known: Iterable[str], default: Iterable[str]):
    words = text.split(",") if text else default
    names = [name for word in words for name in fnmatch.filter(known, word) or [word]]
    for name in names:
        require_known(name, known, "row or protocol", "take")
    return names
