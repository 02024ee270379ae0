"""A profile of a few dispatches in the midst of training."""

import pathlib
from typing import Any

import jax

_NUM_DISPATCHES = 3  # two gaps between dispatches


class Profiler:
    """Records up to three dispatches that follow one another, for TensorBoard.

    The first one after the start or after an evaluation is left out. Training stands
    still before and after the recording, so that it holds these dispatches alone.
    """

    def __init__(self, directory: pathlib.Path):
        self._directory = directory
        self._dispatches = 0  # since training last stood still
        self._first: int | None = None  # of them that is recorded
        self._is_done = False

    def before_dispatch(self, state: Any) -> str | None:
        """Starts or ends the recording; `state` is what the dispatch will work on.

        Returns:
          What was found, in words, when the recording has ended.
        """
        if self._first is None and self._dispatches and not self._is_done:
            jax.block_until_ready(state)
            options = jax.profiler.ProfileOptions()
            options.python_tracer_level = 0  # every Python call: large, and it slows
            jax.profiler.start_trace(str(self._directory), profiler_options=options)
            self._first = self._dispatches
        self._dispatches += 1
        if self._first and self._dispatches > self._first + _NUM_DISPATCHES:
            return self.pause(state)
        return None

    def pause(self, state: Any) -> str | None:
        """Training stands still; a recording that is going on ends."""
        recorded, self._dispatches = self._dispatches - (self._first or 0), 0
        if self._first is None:
            return None
        self._first, self._is_done = None, True
        jax.block_until_ready(state)
        jax.profiler.stop_trace()
        newest = max(self._directory.rglob("*.xplane.pb"), key=_modified)
        busy, span = busy_seconds(newest)
        return (
            f"profile of {min(recorded, _NUM_DISPATCHES)} dispatches in "
            f"{self._directory}: the device worked in {busy:.4g} of {span:.4g} s "
            f"({busy / span:.1%}), from its first operation to its last"
        )


def _modified(path: pathlib.Path) -> int:
    return path.stat().st_mtime_ns


def busy_seconds(path: pathlib.Path) -> tuple[float, float]:
    """Seconds in which the device worked, and from its first operation to its last.

    Over all its streams (on CPU: XLA's threads): where two operations overlap, the time
    counts once. Of several devices, the first.

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
    busy, reached = 0.0, spans[0][0]
    for start, end in spans:
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return busy * 1e-9, (reached - spans[0][0]) * 1e-9
