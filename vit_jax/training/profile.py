"""A profile of a few dispatches during training."""

import pathlib

import jax

_FIRST = 3  # The first dispatches include work that is done only once.
_NUM_DISPATCHES = 3  # They have two gaps between them.


class Profiler:
    """Records the third to fifth dispatch after a start, for TensorBoard.

    The device must be idle when a recording starts and stops, so that the profile holds
    these dispatches alone; a recording stops earlier where the device is idle anyway,
    before an evaluation. As a context manager, this ends a recording after an
    exception.
    """

    def __init__(self, directory: pathlib.Path):
        self._directory = directory
        self._dispatches = 0  # Number since the start.
        self._is_recording = False

    def __enter__(self) -> "Profiler":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_recording:
            self._is_recording = False
            jax.profiler.stop_trace()

    def is_due(self) -> bool:
        """Counts a dispatch; returns whether to call `switch` before it."""
        self._dispatches += 1
        if self._is_recording:
            return self._dispatches == _FIRST + _NUM_DISPATCHES
        return self._dispatches == _FIRST

    def switch(self) -> str | None:
        """Starts a recording, or ends it as `stop` does."""
        if self._is_recording:
            return self.stop()
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # It would record every Python call.
        jax.profiler.start_trace(str(self._directory), profiler_options=options)
        self._is_recording = True
        return None

    def stop(self) -> str | None:
        """Ends a recording, if there is one; returns a sentence about it."""
        if not self._is_recording:
            return None
        self._is_recording = False
        jax.profiler.stop_trace()
        profiles = self._directory.rglob("*.xplane.pb")
        newest = max(profiles, key=lambda path: path.stat().st_mtime_ns)
        found = busy_seconds(newest)
        if found is None:
            return f"profile in {self._directory}: it has no operations of the device"
        busy, span = found
        return (
            f"profile in {self._directory}: the device worked in {busy:.4g} of "
            f"{span:.4g} s ({busy / span:.1%}), from its first operation to its last"
        )


def busy_seconds(path: pathlib.Path) -> tuple[float, float] | None:
    """Seconds in which the device worked, and from its first operation to its last.

    The time in which operations of several streams (on CPU: XLA's threads) overlap
    counts once. Of several devices it is the first. Returns None if the file has no
    operation of a device.

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
