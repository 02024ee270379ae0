"""Training metrics, from the device to a file and the screen, and training time."""

import concurrent.futures
import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.runs.folder import RunFolder
from vit_jax.training.progress import Progress


def read_clocks() -> tuple[float, float]:
    """The wall clock and the processor time of this process, in seconds."""
    return time.monotonic(), time.process_time()


def _clocks_when_ready(metrics: dict[str, Any]) -> tuple[float, float]:
    jax.block_until_ready(metrics)
    return read_clocks()


class TrainClock:
    """Counts the time of the train steps alone, without compilation, evaluations and
    checkpoints.

    `cpu_seconds` is the processor time of all threads of this process, which other
    programs change only by the caches that they share. They include the writing of
    checkpoints beside the steps, and are None if another device than a CPU has computed
    a part of the steps.
    """

    def __init__(self, seconds: float = 0.0, cpu_seconds: float | None = 0.0):
        self.seconds, self.cpu_seconds = seconds, cpu_seconds
        self.resume()

    def resume(self) -> None:
        """Starts to count; the time since the last `lap` does not count."""
        self._mark, self._cpu_mark = read_clocks()

    def lap(self, until: tuple[float, float] | None = None) -> float:
        """Adds what has passed since the last call; returns the wall-clock seconds.

        `until` is the end of the lap, as `read_clocks` gave it; by default it is now.
        """
        mark, cpu_mark = until or read_clocks()
        seconds = mark - self._mark
        self.seconds += seconds
        if backend.platform() != "cpu":
            self.cpu_seconds = None
        elif self.cpu_seconds is not None:
            self.cpu_seconds += cpu_mark - self._cpu_mark
        self._mark, self._cpu_mark = mark, cpu_mark
        return seconds

    def times(self) -> dict[str, float]:
        """{"seconds"} and, where they are known, "cpu_seconds"."""
        if self.cpu_seconds is None:
            return {"seconds": self.seconds}
        return {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds}


def diverged(what: str) -> UserError:
    """The error that ends a training whose numbers are not finite, as `what` says."""
    return UserError(
        f"{what}; try a lower config.optim.learning_rate, a longer "
        "config.schedule.warmup, config.optim.clip_norm=1 or "
        "config.model.dtype=float32. The checkpoints before it are untouched; delete "
        "the newest if the training ends in this way again from there."
    )


class TrainLog:
    """Collects the metrics of each step and writes their means an interval later.

    Fetching a number waits until the device has computed it. So an interval is fetched
    only after one or two dispatches of the next interval have been launched, and the
    device is never idle. `clu.metric_writers` and `clu.periodic_actions` write at once
    and need TensorFlow. `clock` runs while the train steps do.

    A thread waits for the end of each interval and then reads the clocks. The main
    thread may notice it up to a dispatch later, because on a GPU a call that launches a
    program can take as long as a dispatch.
    """

    def __init__(
        self,
        folder: RunFolder,
        progress: Progress,
        *,
        batch_size: int,
        steps_per_epoch: float,
        clock: TrainClock,
        tensorboard: Any = None,
    ):
        """`tensorboard` is a `SummaryWriter`, or None."""
        self.clock = clock
        self._folder, self._progress = folder, progress
        self._batch_size, self._steps_per_epoch = batch_size, steps_per_epoch
        self._tensorboard = tensorboard
        self._current: list[tuple[int, int, Any]] = []
        self._previous: list[tuple[int, int, Any]] = []
        self._waiting = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self._previous_end: concurrent.futures.Future | None = None

    def add(self, step: int, num_steps: int, metrics: dict[str, Any]) -> None:
        """Adds the metrics of the dispatch that ends at `step`, of `num_steps` steps.

        Each metric is a device array whose first elements are those of the steps; those
        behind them do not count (see `steps.train_steps`). This waits for the
        dispatch two before: far enough ahead for the device never to wait, and near
        enough for signals to be answered and progress to be shown in time.
        """
        self._current.append((step, num_steps, metrics))
        launched = [*self._previous, *self._current]
        if len(launched) > 2:
            jax.block_until_ready(launched[-3][-1])
        if len(self._current) == 2:
            self._write_previous()
        self._progress.update(step)

    def end_interval(self) -> None:
        """Closes the interval; it is written one or two dispatches later."""
        end = None
        if self._current:
            end = self._waiting.submit(_clocks_when_ready, self._current[-1][-1])
        self._write_previous()
        self._previous, self._current = self._current, []
        self._previous_end = end

    def drain(self) -> None:
        """Waits for the device and writes everything.

        Raises:
          UserError: a loss is not finite; names the steps.
        """
        self.end_interval()
        self._write_previous()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A context in which the device is idle and no time counts as training; raises
        as `drain` does."""
        self.drain()
        yield
        self.clock.resume()

    def record(self, record: dict[str, Any]) -> None:
        """Writes one complete record, of an evaluation for example."""
        step = record["step"]
        record = {**record, "epoch": round(step / self._steps_per_epoch, 4)}
        self._folder.append_metrics(record)
        if self._tensorboard is not None:
            for name, value in record.items():
                # A masked autoencoder has no accuracy.
                if name not in ("step", "split") and value is not None:
                    tag = f"{record['split']}/{name}"
                    self._tensorboard.add_scalar(tag, value, step)

    def close(self) -> None:
        """Ends the threads, and closes TensorBoard's file."""
        self._waiting.shutdown(wait=False)
        if self._tensorboard is not None:
            self._tensorboard.close()

    def _write_previous(self) -> None:
        interval, self._previous = self._previous, []
        if not interval:
            return
        seconds = self.clock.lap(self._previous_end.result())
        parts = jax.device_get([metrics for *_, metrics in interval])
        counts = [num_steps for _, num_steps, _ in interval]
        each = {
            name: np.concatenate(
                [part[name][:n] for part, n in zip(parts, counts, strict=True)]
            )
            for name in parts[0]
        }
        means = {name: float(values.mean(dtype=float)) for name, values in each.items()}
        # The rate is a setting, so its value at the end is logged instead of a mean.
        means["learning_rate"] = float(each["learning_rate"][-1])
        num_steps, last = len(each["loss"]), interval[-1][0]
        first = last - num_steps + 1
        means["step_seconds"] = seconds / num_steps
        means["epoch_seconds"] = means["step_seconds"] * self._steps_per_epoch
        means["images_per_second"] = self._batch_size / means["step_seconds"]
        record = {"step": last, "split": "train", **means, **self.clock.times()}
        self.record(record)
        self._progress.metrics(record)
        # A finite loss with a gradient that is not finite has spoilt the parameters.
        if not (math.isfinite(means["loss"]) and math.isfinite(means["grad_norm"])):
            raise diverged(
                f"The training loss is {means['loss']} and the gradient's norm "
                f"{means['grad_norm']} in steps {first} to {last}"
            )
