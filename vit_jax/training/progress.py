"""Progress of a long run: a bar on a terminal or in a notebook, else plain lines."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import tqdm

from vit_jax.errors import UserError
from vit_jax.parallel import processes


def say(text: str) -> None:
    """Prints to standard output without buffering; a failure is not an error.

    Of several processes only process 0 prints.
    """
    if not processes.is_primary():
        return
    with contextlib.suppress(OSError, UserError):
        print(text, flush=True)


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Says what is being waited for and, on a terminal or in a notebook, how long."""
    say(f"{what} ...")
    if not processes.is_primary() or not _shows_bars():
        yield
        return
    done, start = threading.Event(), time.monotonic()

    def show() -> None:
        while not done.wait(1):
            text = f"\r{what}: {time.monotonic() - start:.0f} s"
            with contextlib.suppress(OSError, ValueError):
                print(text, end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        with contextlib.suppress(OSError, ValueError):
            print(f"\r{' ' * 79}\r", end="", file=sys.stderr, flush=True)


def _shows_bars() -> bool:
    """Whether standard error is a terminal or the output of a notebook's cell."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class Progress:
    """Shows steps done, the newest metrics and the time left, on standard error.

    A closed pipe or terminal ends the display but not the training. Of several
    processes only process 0 shows anything.
    """

    def __init__(self, total_steps: int, first_step: int = 0, log_every: int = 1):
        """`log_every` is the number of steps between two lines of metrics."""
        self._total, self._log_every, self._shown = total_steps, log_every, first_step
        # The step and the time from which the speed is counted.
        self._since = first_step, time.monotonic()
        self._has_lines = False
        self._open = processes.is_primary()
        self._bar = tqdm.tqdm(
            total=total_steps,
            initial=first_step,
            unit="step",
            dynamic_ncols=True,
            disable=not (self._open and _shows_bars()),
        )

    def update(self, step: int) -> None:
        """Moves the bar to `step`, the number of optimizer steps done."""
        self._quietly(self._bar.update, step - self._bar.n)

    def metrics(self, values: dict[str, Any]) -> None:
        """Shows training metrics: step, loss, images_per_second, perhaps accuracy."""
        accuracy = (
            f", accuracy {values['accuracy']:.1%}" if "accuracy" in values else ""
        )
        text = (
            f"loss {values['loss']:.4f}{accuracy}, "
            f"{values['images_per_second']:,.0f} images/s"
        )
        if not self._bar.disable:
            self._quietly(self._bar.set_postfix_str, text)
            return
        step = values["step"]
        # An evaluation cuts an interval in two; a short part gets no line.
        if 2 * (step - self._shown) < self._log_every:
            return
        self._shown, now = step, time.monotonic()
        seconds_per_step = (now - self._since[1]) / (step - self._since[0])
        left = tqdm.tqdm.format_interval(seconds_per_step * (self._total - step))
        if not self._has_lines:
            # Until then the device also allocated memory, so that the speed was lower.
            self._since, self._has_lines = (step, now), True
        self.line(f"step {step}/{self._total}: {text}, {left} left")

    def line(self, text: str) -> None:
        """Prints a line above the bar."""
        self._quietly(tqdm.tqdm.write, text, file=sys.stderr)

    def close(self) -> None:
        """Ends the display; the bar stays on the screen."""
        self._quietly(self._bar.close)

    def _quietly(self, call, *args, **kwargs):
        if not self._open:
            return
        try:
            call(*args, **kwargs)
        except (OSError, ValueError):  # ValueError: the stream was closed
            self._open = False
