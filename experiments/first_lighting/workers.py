"""Modules of this repository as processes, stopped in time.

Each part is measured in a process of its own: its memory is its own, and the command
that starts it keeps none of the device's.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.launching.jobs import as_child
from vit_jax.files import write_file
from vit_jax.parallel.commands import make_parser
from vit_jax.parallel.signals import StopSignals

_POLL_SECONDS = 0.2
# A training saves between two steps, but cannot while it compiles.
_GRACE_SECONDS = 30


def run_worker(
    signals: StopSignals, deadline: float, module: str, *arguments: str
) -> int | None:
    """Exit status of `python -m MODULE ARGUMENTS`; None: it was stopped.

    It is asked to stop at `deadline`, on the clock of `time.monotonic`, or once
    `signals` has received one, and ended half a minute later.
    """
    command = as_child([sys.executable, "-m", module, *arguments])
    # Ctrl-C reaches this process alone, which asks the child once.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    while signals.received is None and time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_POLL_SECONDS)
    process.terminate()
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return None


def parse_worker(
    name: str, doc: str | None, arguments: Sequence[str], *, config: bool
) -> argparse.Namespace:
    """The options of a worker: data, result, small, and config where it has one."""
    parser = make_parser(name, doc)
    if config:
        parser.add_argument("--config", required=True)
    parser.add_argument("--data", help="official CIFAR-10 files")
    parser.add_argument("--result", required=True, type=pathlib.Path)
    parser.add_argument("--small", action="store_true")
    return parser.parse_args(arguments)


def write_result(path: pathlib.Path, result: Mapping[str, Any]) -> None:
    """Writes a result as JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps(result, indent=1) + "\n")
