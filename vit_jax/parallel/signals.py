"""SIGTERM and Ctrl-C as a flag that the training loop reads between two steps.

JAX's preemption service (`multihost_utils.reached_preemption_sync_point`) also makes
several processes stop at the same step. But it does not handle Ctrl-C, and it ignores
every further SIGTERM, even while data are loaded and programs compiled (JAX 0.10).
"""

import collections
import contextlib
import os
import signal
import threading
from collections.abc import Callable

from vit_jax.errors import PlainError
from vit_jax.parallel import distributed

_NOTICE = (
    b"\nstopping after this step and saving; a second signal ends the program at once\n"
)


class Interrupted(PlainError):
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
    """A context in which a first signal is recorded and a second ends the process.

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
            # This may interrupt a write: a checkpoint that is being written is not
            # committed yet, and the checkpoints before it are not affected.
            os._exit(128 + number)
        self.received = number
        # `print` may not be called again while it is at work.
        with contextlib.suppress(OSError):
            os.write(2, _NOTICE)

    def agreed(self, *, ask: bool) -> int | None:
        """The signal to stop for, or None; the same at the same call on all processes.

        Several processes exchange their signals only where `ask` is true, at the end of
        a logging interval for example, and use the result two calls later, when it is
        available without waiting.
        """
        if not distributed.is_started():
            return self.received
        from vit_jax.parallel import processes  # It imports JAX, which is loaded here.

        self._answers.append(processes.start_max(self.received or 0) if ask else None)
        wait_for_answer = self._answers.popleft()
        return (wait_for_answer() or None) if wait_for_answer else None

    def __enter__(self):
        # Python delivers signals to the main thread only. In another thread, such as a
        # notebook's worker, the process keeps its own handlers.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_):
        for number, handler in self._previous.items():
            signal.signal(number, handler)
