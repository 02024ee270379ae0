"""One call of `experiments.first_light`, and what a part of it is."""

import argparse
import dataclasses
import time
from collections.abc import Callable
from typing import Any

from experiments.first_lighting.workers import run_worker
from experiments.launching.options import LEFT_OVER
from vit_jax.parallel.signals import StopSignals


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
        """`run_worker` with the options that all modules share."""
        shared = ["--small"] if self.options.small and "benchmark" not in module else []
        return run_worker(self.signals, self.deadline, module, *arguments, *shared)


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
