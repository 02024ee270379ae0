"""A run's folder and its small files.

config.json        every setting, with what the model and dataset filled in
dataset.json       class names, image shape, number of examples in each split
environment.json   versions, devices and command of the last start, and earlier ones
metrics.jsonl      one JSON object a line: {"step", "epoch", "split", "loss", ...}
results.json       the selected checkpoint's scores
checkpoints/       the newest and the best state
figures/           training curves and whatever else was drawn
"""

import contextlib
import importlib.metadata
import json
import os
import pathlib
import platform
import sys
import time
from collections.abc import Iterator
from typing import Any

import jax
from ml_collections import ConfigDict

from vit_jax.config import flatten
from vit_jax.errors import UserError

# Settings that change what is shown or where it runs, never what is learned.
_FREE_SETTINGS = {
    "eval_batch_size",
    "log_every",
    "num_devices",
    "parameter_overview",
    "tensorboard",
    "data.archive",
    "data.dir",
    "data.download",
}
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


class RunFolder:
    """Paths and small files of one run; `path` is absolute."""

    def __init__(self, workdir: str | os.PathLike):
        self.path = pathlib.Path(workdir).absolute()
        self.checkpoints = self.path / "checkpoints"
        self.figures = self.path / "figures"
        self._metrics = self.path / "metrics.jsonl"

    def create(self) -> None:
        """Makes the folder and makes sure that it can be written to.

        Raises:
          UserError: it cannot.
        """
        probe = self.path / f".write_test_{os.getpid()}"
        try:
            self.figures.mkdir(parents=True, exist_ok=True)
            probe.write_text("")
            probe.unlink()
        except OSError as error:
            raise UserError(
                f"The run folder {self.path} cannot be written to "
                f"({error.strerror}); give another --workdir."
            ) from None

    def start(self, config: ConfigDict, *, with_changes: bool) -> None:
        """Writes config.json and adds this start to environment.json.

        Args:
          config: complete, as `train` resolved it.
          with_changes: replace a stored config that differs.

        Raises:
          UserError: the folder holds a run of another config; names each key that
            differs with its old and new value.
        """
        file = self.path / "config.json"
        new = json.loads(json.dumps(config.to_dict()))
        if file.exists() and not with_changes:
            old_flat, new_flat = dict(flatten(self.read("config"))), dict(flatten(new))
            changes = [
                f"{key}: {old_flat.get(key)!r} -> {new_flat.get(key)!r}"
                for key in sorted(old_flat.keys() | new_flat.keys())
                if old_flat.get(key) != new_flat.get(key) and key not in _FREE_SETTINGS
            ]
            if changes:
                raise UserError(
                    f"{self.path} holds a run with other settings "
                    f"({'; '.join(changes)}); give another --workdir, the same "
                    "settings, or --resume_with_changes."
                )
        self.write("config", new)
        environment = describe_environment()
        if self.has("environment"):
            before = self.read("environment")
            earlier = before.pop("earlier_starts", [])
            environment["earlier_starts"] = [*earlier, before]
        self.write("environment", environment)

    def has(self, name: str) -> bool:
        """Whether NAME.json is there."""
        return (self.path / f"{name}.json").exists()

    def read(self, name: str) -> Any:
        """The content of NAME.json.

        Raises:
          UserError: the file is missing or is no JSON.
        """
        file = self.path / f"{name}.json"
        try:
            return json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(
                f"{self.path} is no run folder: it has no {file.name}; give the "
                "--workdir of a training run."
            ) from None
        except ValueError as error:
            raise UserError(f"{file} is damaged: {error}.") from None

    def write(self, name: str, content: Any) -> None:
        """Replaces NAME.json as a whole: a reader sees the old or the new one."""
        text = json.dumps(content, indent=2) + "\n"
        temporary = self.path / f".{name}.json.{os.getpid()}"
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.path / f"{name}.json")

    def append_metrics(self, record: dict[str, Any]) -> None:
        """Adds a line to metrics.jsonl."""
        with self._metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """The records of metrics.jsonl; a last line that was cut off is left out."""
        return list(self._records()) if self._metrics.exists() else []

    def _records(self) -> Iterator[dict[str, Any]]:
        for line in self._metrics.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                yield json.loads(line)

    def forget_metrics_after(self, step: int) -> None:
        """Drops the records of steps that a resumed run will do again."""
        kept = [r for r in self.read_metrics() if r["step"] <= step]
        temporary = self._metrics.with_suffix(".tmp")
        temporary.write_text("".join(json.dumps(r) + "\n" for r in kept), "utf-8")
        temporary.replace(self._metrics)


def describe_environment() -> dict[str, Any]:
    """Versions, devices, command and time of this process."""
    devices = jax.devices()
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node(),
        "num_cpus": os.cpu_count(),
        "device": devices[0].device_kind,
        "num_devices": len(devices),
        "num_processes": jax.process_count(),
        "vit_jax": importlib.metadata.version("vit_jax"),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
    }
