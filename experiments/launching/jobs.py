"""Training runs as processes: started, skipped, resumed, and stopped in time.

A run is `python -m vit_jax.main` in OUT/runs/NAME. A finished run is skipped, an
interrupted one resumes from its checkpoint, and a run that fails leaves its error in
error.txt while the others go on. The archive that `pack` writes can be unpacked into
another OUT: finished runs are skipped there, too, and runs with checkpoints resume.
"""

import collections
import dataclasses
import math
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from experiments.launching.pack import pack
from vit_jax.config import (
    apply_overrides,
    check_config,
    flatten,
    load_config_file,
    make_config,
)
from vit_jax.errors import UserError
from vit_jax.files import as_json, open_to_append, report_failure, user_path, write_file
from vit_jax.parallel.signals import StopSignals
from vit_jax.runs.folder import RunFolder, settings_to_compare
from vit_jax.runs.lock import lock
from vit_jax.runs.user_code import add_user_code
from vit_jax.training.progress import say

# A child saves between two steps, but cannot while it compiles.
_GRACE_SECONDS = 60
# Starting and compiling take this long: a shorter run would save nothing.
_MIN_RUN_SECONDS = 60
_POLL_SECONDS = 0.2
# Exit statuses of a run that was stopped: 128 + signal, or minus the signal where
# `child` had no handler yet or was killed. The next call goes on with such a run.
_STOPPED = (130, 143, -signal.SIGTERM, -signal.SIGKILL)


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """One run to be made.

    Attributes:
      name: of its folder.
      config: "FILE.py" or "FILE.py:variant".
      settings: changes to the config, by key: {"optim.learning_rate": 1e-3}.
    """

    name: str
    config: str
    settings: Mapping[str, Any]

    @property
    def arguments(self) -> list[str]:
        """The config and its changes, as `vit_jax.main` takes them."""
        changes = [f"--config.{key}={value}" for key, value in self.settings.items()]
        return [f"--config={self.config}", *changes]

    def load_config(self) -> ConfigDict:
        """Every setting of the run.

        Raises:
          UserError: a setting is refused. Mistakes are found before the first run.
        """
        config = load_config_file(self.config)
        config = apply_overrides(config, self.arguments[1:])
        check_config(config)
        add_user_code(config.code)
        return config

    def requested(self) -> dict[str, Any]:
        """Every setting by key, {"optim.learning_rate": 1e-3}, as JSON restores it."""
        return dict(flatten(as_json(self.load_config().to_dict())))


def as_child(command: Sequence[str]) -> list[str]:
    """The command so that it is asked to stop when this process ends, see `child`."""
    wrapper = pathlib.Path(__file__).with_name("child.py")
    return [sys.executable, str(wrapper), str(os.getpid()), *command]


def stop(processes: Sequence[subprocess.Popen], grace_seconds: float) -> None:
    """Asks processes of `as_child` to stop, and ends those that take longer.

    Each is the first of a process group, which its children are in as well.
    """
    for process in processes:
        process.terminate()
    limit = time.monotonic() + grace_seconds
    for process in processes:
        try:
            process.wait(max(0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run_environment(parallel: int) -> dict[str, str]:
    """The environment of a run beside which `parallel` - 1 others run.

    They share the memory of the accelerator, unless the user has set their fraction.
    """
    # The second is the former name; JAX refuses both together.
    names = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
    if parallel == 1 or not os.environ.keys().isdisjoint(names):
        return dict(os.environ)
    return os.environ | {names[0]: f"{0.9 / parallel:.3f}"}


class Jobs:
    """Jobs and their folders below OUT.

    Attributes:
      out: absolute.
      parallel: runs at a time.
    """

    def __init__(self, out: str | os.PathLike, *, parallel: int = 1):
        self.out = user_path(out).absolute()
        self.parallel = parallel
        self.is_stopped = False

    def folder(self, job: Job) -> RunFolder:
        """The run's folder, which need not exist."""
        return RunFolder(self.out / "runs" / job.name)

    def command(self, job: Job) -> list[str]:
        """The command that trains the run."""
        workdir = f"--workdir={self.folder(job).path}"
        return [sys.executable, "-m", "vit_jax.main", *job.arguments, workdir]

    def is_finished(self, job: Job) -> bool:
        """Whether the run has its results."""
        return is_finished(self.folder(job))

    def error(self, job: Job) -> str | None:
        """Why the run failed: exit status and the last line it printed; or None."""
        file = self._error_file(job)
        if self.is_finished(job) or not file.exists():
            return None
        status, *tail = file.read_text(encoding="utf-8").strip().splitlines()
        return ": ".join([status, *tail[-1:]])

    def launch(
        self, jobs: Sequence[Job], *, deadline: float = math.inf, retry: bool = False
    ) -> list[Job]:
        """Runs the unfinished jobs in order, and returns those that are left.

        Once a signal has stopped a call, further calls start nothing. The signal may
        come as the last run ends, so that no run is left to show it.

        Args:
          deadline: on the clock of `time.monotonic`. Runs are asked to save at that
            time, and no run is started within the minute before it.
          retry: whether runs that failed before are started again.

        Raises:
          UserError: a job's setting is refused, or its folder holds another run.
        """
        if self.is_stopped:
            return self._left(jobs)
        for job in jobs:
            self._claim(job)
        if retry:
            for job in jobs:
                self._error_file(job).unlink(missing_ok=True)
        waiting = collections.deque(self._left(jobs))
        say(f"{len(waiting)} of {len(jobs)} runs to do in {self.out}")
        running: dict[Job, tuple[subprocess.Popen, float]] = {}
        with StopSignals() as signals:
            try:
                while signals.received is None and time.monotonic() < deadline:
                    if waiting and deadline - time.monotonic() < _MIN_RUN_SECONDS:
                        say(f"less than {_MIN_RUN_SECONDS} s are left: nothing starts")
                        waiting.clear()
                    while waiting and len(running) < self.parallel:
                        job = waiting.popleft()
                        if self._is_free(job):
                            running[job] = self._start(job), time.monotonic()
                    if not running:
                        break
                    time.sleep(_POLL_SECONDS)
                    self._collect(running)
            finally:
                stop([process for process, _ in running.values()], _GRACE_SECONDS)
                self._collect(running)
                self.is_stopped = signals.received is not None
        return self._left(jobs)

    def _left(self, jobs: Sequence[Job]) -> list[Job]:
        return [j for j in jobs if not self.is_finished(j) and not self.error(j)]

    def _claim(self, job: Job) -> None:
        """Writes the job into its folder, or checks that it is the folder's job."""
        requested, folder = job.requested(), self.folder(job)
        folder.create()  # It also refuses links that lead out of it.
        if not folder.has("job"):
            folder.write("job", {"requested": requested, "wall_seconds": 0.0})
            return
        # A setting that the saved run lacks had its default.
        before = settings_to_compare(make_config(folder.read("job")["requested"]))
        asked = settings_to_compare(make_config(requested))
        different = sorted(
            key
            for key in asked.keys() | before.keys()
            if asked.get(key) != before.get(key)
        )
        if different:
            raise UserError(
                f"{folder.path} holds a run with other settings "
                f"({', '.join(different)}); give another --out or remove that folder."
            )

    def _is_free(self, job: Job) -> bool:
        """Whether no other training uses the folder; says which one, if any."""
        try:
            with lock(self.folder(job).path / "lock.json", option="--out"):
                return True
        except UserError as error:
            say(f"{job.name} is left: {error}")
            return False

    def _start(self, job: Job) -> subprocess.Popen:
        say(f"{time.strftime('%H:%M:%S')} {job.name}")
        file = self.folder(job).path / "log.txt"
        with report_failure(file), open_to_append(file) as log:
            return subprocess.Popen(
                as_child(self.command(job)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=run_environment(self.parallel),
                # Ctrl-C reaches this process alone, which asks each child once.
                process_group=0,
            )

    def _collect(self, running: dict[Job, tuple[subprocess.Popen, float]]) -> None:
        """Removes ended runs from `running`; keeps the errors of those that failed."""
        for job, (process, start) in list(running.items()):
            if process.poll() is None:
                continue
            del running[job]
            folder = self.folder(job)
            content = folder.read("job")
            content["wall_seconds"] += time.monotonic() - start
            content["parallel"] = max(content.get("parallel", 1), self.parallel)
            folder.write("job", content)
            if not self.is_finished(job) and process.returncode not in _STOPPED:
                lines = (folder.path / "log.txt").read_text(errors="replace")
                tail = "\n".join(lines.strip().splitlines()[-5:])
                error = f"exit status {process.returncode}\n{tail}\n"
                write_file(self._error_file(job), error)
                say(f"{job.name} failed: {error.strip()}")

    def _error_file(self, job: Job) -> pathlib.Path:
        return self.folder(job).path / "error.txt"

    def pack(self, name: str, needed: Iterable[Job] = ()) -> pathlib.Path:
        """Writes OUT/NAME.tar.gz by `experiments.launching.pack`; returns its path.

        Unfinished runs, and those of `needed`, keep their checkpoints.
        """
        folders = [RunFolder(path) for path in sorted((self.out / "runs").glob("*"))]
        names = {job.name for job in needed}
        with_state = [f for f in folders if f.path.name in names or not is_finished(f)]
        return pack(self.out, name, with_state)


def is_finished(folder: RunFolder) -> bool:
    """Whether the run in a folder has its results."""
    # `evaluate` also writes results, of a run that was interrupted as well.
    return folder.has("results") and "num_steps" in folder.read("results")
