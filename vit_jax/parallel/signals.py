"""SIGTERM and Ctrl-C: answered at once, or between two steps of the training loop.

JAX's preemption service (`multihost_utils.reached_preemption_sync_point`) also makes
several processes stop at the same step. But it does not handle Ctrl-C, and it ignores
every further SIGTERM, even while data are loaded and programs compiled (JAX 0.10).
"""

import atexit
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import NoReturn

from vit_jax.errors import PlainError

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


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# What the thread of `answer_signals` does with a signal; None: there is no thread.
_answer: Callable[[int], None] | None = None


def answer_signals() -> None:
    """Ends this process at once on SIGTERM or Ctrl-C, from here on.

    A thread answers, except within `StopSignals`. A Python handler in the main thread
    would have to wait until a call into C++ returns, such as a compilation of minutes,
    and an exception that it raises can get lost in a library's destructor or callback.
    """
    global _answer
    if _answer is not None or threading.current_thread() != threading.main_thread():
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _answer = _end

    def read_signals():
        while True:
            for number in os.read(reader, 1):
                if number in _SIGNALS:
                    _answer(number)

    threading.Thread(target=read_signals, name="signals", daemon=True).start()
    for number in _SIGNALS:
        # A handler has to be there, or the signal's default would end the process.
        signal.signal(number, lambda *_: None)
    atexit.register(_ignore_signals)


def _ignore_signals() -> None:
    # All is done. The end of Python gives each signal its default back, with which it
    # would end this process without a word and with another exit status.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _end(number: int) -> NoReturn:
    """Ends the process: a file is written whole or not at all, so none is harmed."""
    name = signal.Signals(number).name
    text = f"interrupted ({name}); what was saved before is as it was\n"
    with contextlib.suppress(OSError):
        os.write(2, text.encode())
    os._exit(128 + number)


class StopSignals:
    """A context in which a first signal is recorded and a second ends the process.

    Attributes:
      received: number of the first signal this process got, or None.
    """

    def __init__(self):
        self.received: int | None = None
        self._previous = {}

    def _record(self, number, frame=None):
        if self.received is not None:
            # This may interrupt a write: a checkpoint that is being written is not
            # committed yet, and the checkpoints before it are not affected.
            os._exit(128 + number)
        self.received = number
        # `print` may not be called again while it is at work.
        with contextlib.suppress(OSError):
            os.write(2, _NOTICE)

    def deliver(self) -> None:
        """Sends a recorded signal again, to whoever answers it outside the context."""
        if self.received is not None:
            os.kill(os.getpid(), self.received)

    def __enter__(self):
        global _answer
        if _answer is not None:
            _answer = self._record
        # Python delivers signals to the main thread only. In another thread, such as a
        # notebook's worker, the process keeps its own handlers.
        elif threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._previous[number] = signal.signal(number, self._record)
        return self

    def __exit__(self, *_):
        global _answer
        if _answer is not None:
            _answer = _end
        for number, handler in self._previous.items():
            signal.signal(number, handler)
