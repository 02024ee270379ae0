"""One call of `experiments.first_light`, what a part of it is, and its processes.

Each part is measured in a process of its own: its memory is its own, and the command
that starts it keeps none of the device's.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.launching.jobs import as_child, stop
from experiments.launching.options import LEFT_OVER
from vit_jax.files import write_file
from vit_jax.parallel.commands import make_parser
from vit_jax.parallel.signals import StopSignals

_POLL_SECONDS = 0.2
# A training saves between two steps, but cannot while it compiles.
_GRACE_SECONDS = 30


@dataclasses.dataclass(frozen=True)
class Session:
    """One call of the command.

    Attributes:
      options: data, out (absolute), small, equal_minutes.
      deadline: on the clock of `time.monotonic`.
      signals: that the command has received.
    """

    options: argparse.Namespace
    deadline: float
    signals: StopSignals

    def seconds_left(self) -> float:
        """Until the time is up, or 0 after a signal."""
        if self.signals.received is not None:
            return 0.0
        return max(0.0, self.deadline - time.monotonic())

    def run(self, module: str, *arguments: str) -> int | None:
        """Exit status of `python -m MODULE ARGUMENTS`; None: it was stopped.

        It is asked to stop once no time is left, and ended half a minute later.
        """
        shared = ["--small"] if self.options.small and "benchmark" not in module else []
        command = as_child([sys.executable, "-m", module, *arguments, *shared])
        # Ctrl-C reaches this process alone, which asks the child once.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
        while self.seconds_left():
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(_POLL_SECONDS)
        stop([process], _GRACE_SECONDS)
        return None


@dataclasses.dataclass(frozen=True)
class Part:
    """One result: OUT/NAME.json.

    Attributes:
      least_seconds: with less time it would give nothing, and is not started.
      run: returns the result with "finished" and "summary", lines of text; a part that
        is not finished goes on when it is run again.
    """

    name: str
    least_seconds: float
    run: Callable[[Session], dict[str, Any]]


def outcome_of(status: int | None) -> dict[str, Any]:
    """The beginning of a result, by the exit status of `Session.run`."""
    finished = status == 0
    if finished or status in (None, LEFT_OVER):
        return {"finished": finished, "summary": []}
    return {"finished": False, "error": f"exit status {status}", "summary": []}


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
