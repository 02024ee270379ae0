"""The time that training takes, on the wall and of the processor."""

import time

from vit_jax.models import backend


class TrainClock:
    """Counts training alone: compilation, evaluation and checkpoints stop it.

    Attributes:
      seconds: wall-clock time.
      cpu_seconds: processor time of all threads of this process, which other programs
        change only by the caches that they share; 0 unless the device is a CPU.
    """

    def __init__(self, seconds: float = 0.0, cpu_seconds: float = 0.0):
        self.seconds, self.cpu_seconds = seconds, cpu_seconds
        self.resume()

    def resume(self) -> None:
        """Counts from now on, and nothing since the last `lap`."""
        self._mark, self._cpu_mark = time.monotonic(), time.process_time()

    def lap(self) -> float:
        """Adds what has passed since the last call; returns the wall-clock seconds."""
        seconds = time.monotonic() - self._mark
        self.seconds += seconds
        if backend.platform() == "cpu":
            self.cpu_seconds += time.process_time() - self._cpu_mark
        self.resume()
        return seconds

    def times(self) -> dict[str, float]:
        """{"seconds"} and, where the device is a CPU, "cpu_seconds"."""
        if backend.platform() != "cpu":
            return {"seconds": self.seconds}
        return {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds}
