"""Requests to stop and to save, on which several processes agree."""

import collections
import time
from collections.abc import Callable

from vit_jax.parallel import distributed, processes


class Requests:
    """Grants requests at the same call in all processes.

    A process that is alone is granted its own at once. Several exchange theirs only
    where they are asked to, at the end of a logging interval for example, and learn the
    answer two calls later, when it is available without waiting.
    """

    def __init__(self, save_seconds: float):
        """`save_seconds` is the wall-clock time from one save to the next request."""
        self._save_seconds = save_seconds
        self._answers: collections.deque[Callable[[], int] | None] = collections.deque(
            2 * [None]
        )
        self.saved()

    def saved(self) -> None:
        """Starts the time to the next request to save."""
        self._last_save = time.monotonic()

    def granted(self, signal_number: int, *, exchange: bool) -> tuple[int, bool]:
        """The signal for which all processes stop now, or 0; whether all save soon.

        Args:
          signal_number: of the signal that this process got, or 0.
          exchange: whether several processes exchange their requests at this call,
            which is the same for all.
        """
        now = time.monotonic()
        # The clock of the primary process decides for all.
        is_due = processes.is_primary() and now - self._last_save >= self._save_seconds
        request = 2 * signal_number + is_due
        if distributed.is_started():
            if is_due and exchange:
                # The answer comes later, and until then nothing is requested again.
                self._last_save = now
            self._answers.append(processes.start_max(request) if exchange else None)
            wait_for_answer = self._answers.popleft()
            request = wait_for_answer() if wait_for_answer else 0
        number, saves = divmod(request, 2)
        return number, bool(saves)
