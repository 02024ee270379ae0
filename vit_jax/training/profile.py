"""A profile of a few dispatches during training."""

import pathlib
from collections.abc import Callable
from contextlib import AbstractContextManager

import jax

_FIRST = 3  # The first dispatches include work that is done only once.
_NUM_DISPATCHES = 3  # They have two gaps between them.


class Profiler:
    """Records the third to fifth dispatch after a start, for TensorBoard.

    The device must be idle when the recording starts and stops, so that the profile
    holds these dispatches alone; it stops earlier at an evaluation or a checkpoint, for
    which the device is idle anyway. As a context manager, this ends the recording after
    an exception.
    """

    def __init__(self, directory: pathlib.Path):
        self._directory = directory
        self._dispatches = 0
        self._is_recording = False

    @property
    def has_begun(self) -> bool:
        """Whether there was a third dispatch."""
        return self._dispatches >= _FIRST

    def __enter__(self) -> "Profiler":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_recording:
            self._is_recording = False
            jax.profiler.stop_trace()

    def before_dispatch(
        self,
        paused: Callable[[], AbstractContextManager],
        show: Callable[[str], None],
    ) -> None:
        """Starts the recording before the third dispatch, stops it before the sixth.

        Args:
          paused: `TrainLog.paused`, in which the device is idle.
          show: see `stop`.
        """
        self._dispatches += 1
        if self._dispatches == _FIRST:
            options = jax.profiler.ProfileOptions()
            options.python_tracer_level = 0  # It would record every Python call.
            with paused():
                jax.profiler.start_trace(str(self._directory), profiler_options=options)
            self._is_recording = True
        elif self._is_recording and self._dispatches == _FIRST + _NUM_DISPATCHES:
            with paused():
                self.stop(show)

    def stop(self, show: Callable[[str], None]) -> None:
        """Stops the recording, if there is one; `show` gets a sentence about it."""
        if not self._is_recording:
            return
        self._is_recording = False
        jax.profiler.stop_trace()
        profiles = self._directory.rglob("*.xplane.pb")
        newest = max(profiles, key=lambda path: path.stat().st_mtime_ns)
        found = busy_seconds(newest)
        if found is None:
            show(f"profile in {self._directory}: it has no operations of the device")
            return
        busy, span = found
        show(
            f"profile in {self._directory}: the device worked in {busy:.4g} of "
            f"{span:.4g} s ({busy / span:.1%}), from its first operation to its last"
        )


def busy_seconds(path: pathlib.Path) -> tuple[float, float] | None:
    """Seconds in which the device worked, and from its first operation to its last.

    The time in which operations of several streams (on CPU: XLA's threads) overlap
    counts once. Of several devices it is the first. Returns None if the file has no
    operation of a device. JAX reads the file; the package xprof, which shows it in a
    browser, is not needed.

    Args:
      path: an .xplane.pb file of `jax.profiler`.
    """
    planes = list(jax.profiler.ProfileData.from_file(str(path)).planes)
    devices = sorted(p.name for p in planes if p.name.startswith("/device:"))
    name = devices[0] if devices else "/host:CPU"
    prefixes = ("Stream", "XLA Ops") if devices else ("tf_XLA",)
    spans = sorted(
        (event.start_ns, event.start_ns + event.duration_ns)
        for plane in planes
        if plane.name == name
        for line in plane.lines
        if line.name.startswith(prefixes)
        for event in line.events
        if event.duration_ns > 0
    )
    if not spans:
        return None
    busy, reached = 0.0, spans[0][0]
    for start, end in spans:
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return busy * 1e-9, (reached - spans[0][0]) * 1e-9
