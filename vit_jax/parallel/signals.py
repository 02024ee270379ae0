"""SIGTERM and Ctrl-C as a question the training loop asks between two steps.

JAX's preemption service (`multihost_utils.reached_preemption_sync_point`) agrees on a
common step of several processes, too. But it does not answer Ctrl-C, and it swallows
every further SIGTERM, also while data are loaded and programs compiled (JAX 0.10).
"""

import collections
import os
import signal
import threading
from collections.abc import Callable

from vit_jax.parallel import distributed


class Interrupted(Exception):
    """Training ended early on a signal, with its state saved.

    Attributes:
      step: optimizer steps done and saved.
      exit_status: 128 + the signal's number, as shells report it.
    """

    def __init__(self, step: int, signal_number: int):
        super().__init__(
            f"saved step {step}; rerun the same command to resume "
            f"({signal.Signals(signal_number).name})"
        )
        self.step = step
        self.exit_status = 128 + signal_number


class StopSignals:
    """Context in which the first signal is remembered and a second ends the process.

    Attributes:
      received: number of the first signal this process got, or None.
    """

    def __init__(self):
        self.received: int | None = None
        self._answers: collections.deque[Callable | None] = collections.deque(
            2 * [None]
        )
        self._previous = {}

    def _handle(self, number, frame):
        if self.received is not None:
            # At once: whatever is being written is not committed yet, and the
            # checkpoints before it stay as they are.
            os._exit(128 + number)
        self.received = number

    def agreed(self, *, ask: bool) -> int | None:
        """The signal to stop for, or None; the same at the same call on all processes.

        Several processes ask each other only where `ask` is true, at the end of a
        logging interval for example, and use the answer two calls later, when it is
        there without waiting.
        """
        if not distributed.is_started():
            return self.received
        from vit_jax.parallel import processes  # with JAX, which is there by now

        self._answers.append(processes.start_max(self.received or 0) if ask else None)
        wait_for_answer = self._answers.popleft()
        return (wait_for_answer() or None) if wait_for_answer else None

    def __enter__(self):
        # Python delivers signals to the main thread only; elsewhere (a notebook's
        # worker, say) the process keeps its own handling.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_):
        for number, handler in self._previous.items():
            signal.signal(number, handler)
