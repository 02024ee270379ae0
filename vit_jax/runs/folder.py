"""A run's folder and its small files, which docs/run_folder.md lists.

Of several processes only the primary one writes; all of them read.
"""

import contextlib
import os
import pathlib
import platform
from collections.abc import Iterator
from typing import Any

from ml_collections import ConfigDict

from vit_jax import models
from vit_jax.config import flatten, make_config
from vit_jax.config.settings import MAX_SIDE
from vit_jax.config.values import reset_steps
from vit_jax.errors import UserError, show
from vit_jax.files import (
    as_json,
    make_folder,
    read_json,
    refuse_links,
    user_path,
    write_json,
)
from vit_jax.parallel import processes
from vit_jax.runs.environment import describe_environment
from vit_jax.runs.lock import lock
from vit_jax.runs.records import append_record, read_records, write_records
from vit_jax.runs.run import fill_model_settings

# Where data and teacher are. What they are is compared all the same: the data by
# dataset.json, and a teacher by the SHA-256 of its checkpoint, which is a setting.
_WHERE_DATA_LIE = {"data.archive", "data.dir", "data.download", "distill.teacher"}
# Settings that may change when a run is resumed: none of them changes what it learns.
FREE_SETTINGS = {
    "checkpoint_every",
    "eval_batch_size",
    "log_every",
    "num_devices",
    "parameter_overview",
    "shard_params",
    "steps_per_dispatch",
    "tensorboard",
    "data.placement",
    *_WHERE_DATA_LIE,
}

# Settings without which the steps that are done mean something else: among them what
# draws the images held out, which the model must not have been trained on, and what
# gives the parameters before the first step.
_FIXED_SETTINGS = {
    "batch_size",
    "linear_probe",
    "data.select_on",
    "data.split_seed",
    "data.subset_test_per_class",
    "data.val_per_class",
    "data.validation",
    "data.validation_fraction",
    "model.layer_init",
    "model.layer_scale",
    "model.mimetic_init",
    "model.stem_init",
    "model.token_init",
    "pretrained.allow",
    "pretrained.grid",
    "pretrained.head",
    "pretrained.path",
    "pretrained.positions",
    "pretrained.resize_patches",
}

# Settings that are a SHA-256, and what it means that it is another one.
_CONTENT = {
    "code_sha256": "the file of config.code has other content",
    "distill.sha256": "the teacher's checkpoint has other content",
}

# Folders of a run that are written to.
_FOLDERS = ("checkpoints", "figures", "reports", "profile", "tensorboard")


class RunFolder:
    """Paths and small files of one run; `path` is absolute."""

    def __init__(self, workdir: str | os.PathLike):
        self.path = user_path(workdir).absolute()
        self.checkpoints = self.path / "checkpoints"
        self.figures = self.path / "figures"
        self._metrics = self.path / "metrics.jsonl"

    def create(self) -> None:
        """Creates the folder; raises UserError if it cannot be written to, if a link
        leads out of it, or if files that are no run's would be overwritten."""
        make_folder(self.path, "--workdir")
        refuse_links(self.path, _FOLDERS)
        for folder in (self.path / name for name in _FOLDERS):
            if not self.has("config") and folder.is_dir() and any(folder.iterdir()):
                raise UserError(
                    f"{self.path} has files in {folder.name}/ but no config.json, so "
                    "it is no run's folder; give another --workdir, best one that does "
                    "not exist yet."
                )
        make_folder(self.figures, "--workdir")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Creates the folder and locks it against other trainings.

        The kernel releases the lock when the process ends in any way. Of several
        processes the primary one holds it for all.

        Raises:
          UserError: as `create` does; or another training runs here; or the processes
            of this training do not see the same folder.
        """
        with contextlib.ExitStack() as stack:

            def enter() -> None:
                self.create()
                if processes.is_primary():
                    stack.enter_context(lock(self.path / "lock.json"))

            processes.run_on_all(enter)
            owner = processes.broadcast_from_primary(lambda: self.read("lock"))
            processes.run_on_all(lambda: self._require_shared(owner))
            yield

    def _require_shared(self, owner: dict[str, Any]) -> None:
        if not self.has("lock") or self.read("lock") != owner:
            raise UserError(
                f"{self.path} on {platform.node()} is not the folder that the "
                f"primary process uses on {owner['host']}; give a shared --workdir."
            )

    def changes(self, config: ConfigDict, dataset: dict[str, Any]) -> list[str]:
        """What a start would change of the run: "key: old -> new", or in words.

        Settings in `FREE_SETTINGS` are left out. A folder without a run has none, and
        neither has one in which no step was saved yet.

        Args:
          config: complete, as the new start resolved it.
          dataset: the content that dataset.json would get.

        Raises:
          UserError: a setting by which steps are counted and judged would change.
        """
        if not self.is_started():
            return []
        saved = make_config(self.read("config"))
        if saved.model.name not in models.MODELS:
            raise UserError(
                f"{self.path} holds a run of the model {show(saved.model.name)}, which "
                "the package has not; give another --workdir, or the config of that "
                f"run with config.code={saved.code}."
            )
        old, new = settings_to_compare(saved), settings_to_compare(config)
        same_model = old["model.name"] == new["model.name"]
        for key in sorted(_FIXED_SETTINGS):
            # Another model has other initial values, and its name is told below.
            if old[key] != new[key] and (same_model or not key.startswith("model.")):
                raise UserError(
                    f"{self.path} holds a run with config.{key}={show(old[key])}, "
                    f"which cannot become {show(new[key])} on the way; give another "
                    "--workdir, or the same value."
                )
        if self.has("dataset"):
            before, now = self.read("dataset"), as_json(dataset)
            counts = [_counts(x, new, old) for x in (before, now)]
            # Of other images others would be held out: perhaps those trained on.
            if counts[0] != counts[1]:
                raise UserError(
                    f"{self.path} holds a run on {show(counts[0])} images, but now "
                    f"there are {show(counts[1])}; give another --workdir, or the same "
                    "images."
                )
            old |= flatten({"dataset": before})
            new |= flatten({"dataset": now})
        return [
            _describe_change(key, old.get(key), new.get(key))
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        ]

    def is_started(self) -> bool:
        """Whether there is a run, and a state of it to go on from."""
        return self.has("config") and self.has_checkpoints()

    def has_checkpoints(self) -> bool:
        """Whether a state was saved; it may be damaged."""
        return any(path.name.isdigit() for path in self.checkpoints.glob("*"))

    def require_same_start(
        self, config: ConfigDict, dataset: dict[str, Any], resume_with_changes: bool
    ) -> None:
        """Refuses processes of one training that differ in settings or data; raises as
        `processes.require_same` does."""
        own = {"--resume_with_changes": resume_with_changes, "dataset": dataset}
        settings = flatten(as_json(config.to_dict() | own))
        elsewhere = {*_WHERE_DATA_LIE, "code"}
        processes.require_same(
            {key: value for key, value in settings if key not in elsewhere}
        )

    def start(
        self, config: ConfigDict, dataset: dict[str, Any], changed: str = ""
    ) -> None:
        """Writes config.json and dataset.json, adds this start to environment.json.

        Args:
          changed: the step after which settings changed, and which.
        """
        if not processes.is_primary():
            return
        self.write("config", config.to_dict())
        self.write("dataset", dataset)
        environment = describe_environment()
        if earlier := self._starts():
            environment["earlier_starts"] = earlier
        if changed:
            environment["changed"] = changed
        self.write("environment", environment)

    def read_changes(self) -> list[str]:
        """What resumed starts have changed of the settings, each with its step."""
        return [start["changed"] for start in self._starts() if "changed" in start]

    def _starts(self) -> list[dict[str, Any]]:
        """What environment.json has of each start, the first one first."""
        if not self.has("environment"):
            return []
        newest = self.read("environment")
        earlier = newest.pop("earlier_starts", [])
        return [*(earlier if isinstance(earlier, list) else []), newest]

    def has(self, name: str) -> bool:
        """Whether NAME.json is there."""
        return (self.path / f"{name}.json").exists()

    def read(self, name: str) -> Any:
        """The content of NAME.json; raises UserError if it is missing or damaged."""
        file = self.path / f"{name}.json"
        try:
            return read_json(file)
        except (FileNotFoundError, NotADirectoryError):
            # Of a run, often a file or its checkpoints are given.
            inside = [x for x in self.path.parents[:2] if (x / file.name).is_file()]
            run = f"run folder {inside[0]}" if inside else "--workdir of a training run"
            raise UserError(
                f"{self.path} is no run folder: it has no {file.name}; give the {run}."
            ) from None

    def read_dataset(self) -> dict[str, Any]:
        """The content of dataset.json; raises as `read` does."""
        content = self.read("dataset")
        names, shape = content.get("class_names"), content.get("image_shape")
        if not (
            isinstance(names, list)
            and all(isinstance(name, str) for name in names)
            and 0 < len(set(names)) == len(names)
            and isinstance(shape, list)
            and all(type(size) is int and 0 < size <= MAX_SIDE for size in shape)
            and len(shape) == 3
            and shape[2] in (1, 3)
        ):
            raise UserError(
                f"{self.path / 'dataset.json'} is damaged: it must have class_names, "
                "which are different texts, and image_shape, which is height, width "
                "and 1 or 3; restore it from a copy."
            )
        return content

    def read_results(self) -> dict[str, Any]:
        """The content of results.json; empty where the run has none."""
        return self.read("results") if self.has("results") else {}

    def write(self, name: str, content: Any) -> None:
        """Replaces NAME.json; see `files.write_file`."""
        if processes.is_primary():
            write_json(self.path / f"{name}.json", content)

    def remove(self, name: str) -> None:
        """Removes NAME.json if it is there."""
        if processes.is_primary():
            (self.path / f"{name}.json").unlink(missing_ok=True)

    def append_metrics(self, record: dict[str, Any]) -> None:
        """Adds a line to metrics.jsonl; raises as `write` does."""
        if processes.is_primary():
            append_record(self._metrics, record)

    def read_metrics(self) -> list[dict[str, Any]]:
        """The records of metrics.jsonl; see `records.read_records`."""
        return read_records(self._metrics)

    def forget_metrics_after(self, step: int) -> None:
        """Drops the records of steps that a resumed run repeats."""
        kept = [r for r in self.read_metrics() if r["step"] <= step]
        if processes.is_primary():
            write_records(self._metrics, kept)

    def forget_scores_after(self, step: int) -> None:
        """Drops the scores of later checkpoints, whose steps a resumed run repeats."""
        results = self.read_results()
        others = results.get("other_checkpoints", {})
        kept = {of: scores for of, scores in others.items() if int(of) <= step}
        if results.get("best_step", 0) > step:
            self.write("results", {"other_checkpoints": kept})
        elif kept != others:
            self.write("results", results | {"other_checkpoints": kept})


def _counts(
    dataset: dict[str, Any], new: dict[str, Any], old: dict[str, Any]
) -> dict[str, int]:
    """The numbers of images by split, without those that a setting changes.

    data.train_per_class takes fewer of the images that are left for training.
    """
    counts = dict(dataset.get("num_examples", {}))
    if new["data.train_per_class"] != old["data.train_per_class"]:
        counts.pop("train", None)
    return counts


def _describe_change(key: str, old: Any, new: Any) -> str:
    if key in _CONTENT and old and new:
        return _CONTENT[key]
    return f"{key}: {show(old)} -> {show(new)}"


def settings_to_compare(config: ConfigDict) -> dict[str, Any]:
    """Settings by key, as JSON, alike wherever files lie and whoever reads them;
    without `FREE_SETTINGS`.

    Settings that a model of the user's own leaves to itself stay None where this
    process does not know that model.
    """
    config = config.copy_and_resolve_references()
    if config.linear_probe:
        reset_steps(config)
    if config.model.name in models.MODELS:
        fill_model_settings(config)
    # The files may lie in another folder, on another machine for example.
    config.code = pathlib.Path(config.code).name
    config.pretrained.path = pathlib.Path(config.pretrained.path).name
    if config.data.source == "cifar_files":
        config.data.source = "tfds"  # which gives the same images in the same order
    if config.data.source == "folder":
        config.data.name = ""  # that of the folder, which may be renamed
    settings = flatten(as_json(config.to_dict()))
    return {key: value for key, value in settings if key not in FREE_SETTINGS}
