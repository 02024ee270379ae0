"""Checkpoints of a run: the best and the two newest, saved while training continues.

Orbax writes to a temporary folder and renames it once it is complete, so a save that is
killed leaves the earlier checkpoints intact.

    DIRECTORY/1200/state/_METADATA       names, dtypes, metrics, the caller's metadata
    DIRECTORY/1200/state/manifest.json   SHA-256 of every file of the state
    DIRECTORY/1200/state/...             arrays, as a flat dict from name to array

Only arrays and JSON are read, never a pickle, and only into the names, shapes and
dtypes that the caller expects: a checkpoint of unknown origin cannot run code.
"""

import contextlib
import errno
import json
import os
import pathlib
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import jax
import orbax.checkpoint as ocp

from vit_jax.errors import UserError, show
from vit_jax.files import is_full, make_folder
from vit_jax.parallel import processes
from vit_jax.runs.manifest import differences, named_leaves
from vit_jax.runs.orbax_manager import (
    TEMPORARY,
    HashedStateHandler,
    make_manager,
    restore_arrays,
)
from vit_jax.runs.ranking import NEVER_BEST, inspect_state, rank


class Checkpoints(contextlib.AbstractContextManager):
    """The best and the two newest checkpoints of one run.

    Best is the highest accuracy, then the lowest loss, then the earliest step. Without
    both metrics, or with one that is NaN or infinite, a checkpoint is never the best.

    All are verified when the folder is opened. A damaged checkpoint is named in a
    warning, never restored, and deleted once the next save is complete. With several
    processes, all make the same calls on a folder that they share, and the primary
    process verifies.
    """

    def __init__(self, directory: str | os.PathLike, *, read_only: bool = False):
        """Opens a folder; unless read_only, creates it and removes interrupted saves.

        Raises:
          UserError: it cannot be written, or every checkpoint in it is damaged.
        """
        self._directory = pathlib.Path(directory).absolute()
        self._read_only = read_only
        if not read_only:
            make_folder(self._directory, "--workdir")
            self._remove_leftovers()
        self._handler = HashedStateHandler()
        self._manager = make_manager(
            self._directory, self._handler, policy=self, read_only=read_only
        )
        self._ranks: dict[int, tuple[float, float]] = {}
        self._damage: dict[int, str] = {}
        self._bytes_needed = 0
        self._verify()

    def _verify(self) -> None:
        for step, found_rank, damage in processes.broadcast_from_primary(self._inspect):
            self._ranks[step] = tuple(found_rank)
            if damage:
                self._damage[step] = damage
                if processes.is_primary():
                    text = f"Checkpoint {step} is damaged: {damage}"
                    warnings.warn(text, stacklevel=3)
        if self._damage and not self.steps():
            self._manager.close()
            raise UserError(
                f"Every checkpoint in {self._directory} is damaged (the newest: "
                f"{self._damage[max(self._damage)]}); restore the folder from a copy, "
                "or start again in an empty workdir."
            )

    def _inspect(self) -> list[list[Any]]:
        """[step, rank, damage in words] of each checkpoint."""
        while True:
            folders = {s: self._directory / str(s) for s in self._manager.all_steps()}
            found = [
                [step, *inspect_state(folder / "state", self._handler)]
                for step, folder in folders.items()
            ]
            if not self._read_only or all(f.exists() for f in folders.values()):
                return found
            # The training that owns the folder has removed one meanwhile.
            self._manager.reload()

    def __exit__(self, *_: object) -> None:
        self.close()

    def steps(self) -> list[int]:
        """Steps of the undamaged checkpoints, ascending, with the one being saved."""
        known = set(self._manager.all_steps()) & set(self._ranks)
        return sorted(known - set(self._damage))

    @property
    def latest_step(self) -> int | None:
        """The newest undamaged checkpoint; None only if nothing was ever saved."""
        return max(self.steps(), default=None)

    @property
    def best_step(self) -> int | None:
        """The best undamaged checkpoint; None if none has finite metrics."""
        ranked = [step for step in self.steps() if self._ranks[step] != NEVER_BEST]
        return max(ranked, key=self._ranks.__getitem__, default=None)

    def would_be_best(self, accuracy: float | None, loss: float | None) -> bool:
        """Whether a checkpoint with these scores would be the best undamaged one."""
        # What Orbax knows may differ between processes, and these do not.
        ranks = [r for step, r in self._ranks.items() if step not in self._damage]
        return rank(accuracy, loss) > max(ranks, default=NEVER_BEST)

    def should_preserve(self, infos: Sequence[Any], *, context: Any) -> list[bool]:
        """Orbax deletes all other checkpoints after a save."""
        # Two of the newest: one to fall back to if the best is also the newest.
        kept = {*self.steps()[-2:], self.best_step}
        return [info.step in kept for info in infos]

    def save(
        self,
        step: int,
        state: Any,
        *,
        metadata: Mapping[str, Any],
        accuracy: float | None,
        loss: float | None,
    ) -> None:
        """Starts to save `state`, and returns once its arrays may be donated.

        Only the first save of a step has an effect. If a step is both evaluated and
        saved for another reason, save it with the metrics first.

        Args:
          step: not below `latest_step`.
          state: pytree of arrays, which are saved by name.
          metadata: what JSON can hold; `restore` returns it.
          accuracy: 0 to 1, of the evaluation at this step; None if there was none.
          loss: of the same evaluation.

        Raises:
          UserError: the disk has no room for this save, or had none for the last one.
        """
        if self._read_only:
            raise ValueError(f"{self._directory} was opened read-only")
        if step in self.steps():
            return
        if step < (self.latest_step or 0):
            raise ValueError(f"step {step} is below checkpoint {self.latest_step}")
        custom = {"metadata": metadata, "step": step}
        custom |= {"accuracy": accuracy, "loss": loss}
        custom = json.loads(json.dumps(custom))  # it is written later: copy it now
        arrays = named_leaves(state)
        self.wait()
        with self._report_full_disk(), jax.transfer_guard("allow"):
            self._require_space(sum(array.nbytes for array in arrays.values()))
            if step in self._damage:
                self._manager.delete(step)
                del self._damage[step]
            self._ranks[step] = rank(accuracy, loss)
            item = ocp.args.StandardSave(arrays, custom_metadata=custom)
            self._manager.save(step, args=ocp.args.Composite(state=item), force=True)

    def wait(self) -> None:
        """Blocks until the save in progress is committed; raises as `save` does."""
        with self._report_full_disk():
            self._manager.wait_until_finished()
        self._remove_leftovers()

    def close(self) -> None:
        """Waits for the save in progress, as `wait` does, and stops Orbax's threads."""
        try:
            self.wait()
        finally:
            self._manager.close()

    def restore(
        self,
        which: Literal["latest", "best"] | int,
        target: Any,
        *,
        partial: bool = False,
    ) -> tuple[Any, dict[str, Any]]:
        """(state, metadata) of one checkpoint.

        "latest" is the newest undamaged one. A damaged step is refused, and so is
        "best" while any is damaged, since that one may have been the best.

        Args:
          which: "latest", "best" or a step.
          target: pytree of arrays or ShapeDtypeStructs. The arrays go where their
            shardings say, whatever devices saved them; without one, to one device.
          partial: the checkpoint may hold more arrays than `target`, which are then
            not read.

        Raises:
          UserError: no such checkpoint, or a damaged one, or one whose arrays differ
            from the target's in name, shape or dtype (nothing is cast).
        """
        self.wait()
        step = self._choose(which)
        saved = self._saved(step)
        expected, found = named_leaves(target), named_leaves(saved.tree)
        if partial:
            found = {name: leaf for name, leaf in found.items() if name in expected}
        if different := differences(found, expected):
            raise UserError(
                f"Checkpoint {step} in {self._directory} does not fit the config: "
                f"{different}; use the config of that run, or another workdir."
            )
        arrays = restore_arrays(self._directory / str(step) / "state", expected)
        leaves = [arrays[name] for name in expected]
        state = jax.tree.unflatten(jax.tree.structure(target), leaves)
        return state, saved.custom_metadata["metadata"]

    def metadata(self, which: Literal["latest", "best"] | int) -> dict[str, Any]:
        """What `save` was given as metadata; chooses and raises as `restore` does."""
        self.wait()
        return self._saved(self._choose(which)).custom_metadata["metadata"]

    def _choose(self, which: str | int) -> int:
        damaged = [s for s in self._manager.all_steps() if s in self._damage]
        if damaged and which in ("best", *damaged):
            step = damaged[-1] if which == "best" else which
            raise UserError(
                f"Checkpoint {step} is damaged ({self._damage[step]})"
                f"{' and may have been the best' * (which == 'best')}; choose from the "
                f"intact ones by number: {self.steps()}."
            )
        step = {"latest": self.latest_step, "best": self.best_step}.get(which, which)
        if not self._manager.all_steps():
            raise UserError(f"{self._directory} has no checkpoint yet; train first.")
        if which == "best" and step is None:
            raise UserError(
                f"{self._directory} has no best checkpoint, since none of "
                f"{self.steps()} was evaluated to a finite loss; continue the training "
                "or choose one of them by number."
            )
        if step not in self.steps():
            raise UserError(
                f"{self._directory} has no checkpoint {show(which)}; give best, latest "
                f"or the number of one of {self.steps()}."
            )
        return int(step)  # A step that is read from a table may be 3.0.

    def _saved(self, step: int) -> Any:
        """Orbax's description of a checkpoint: shapes, dtypes and JSON, no arrays."""
        return self._handler.metadata(self._manager.directory / str(step) / "state")

    def _require_space(self, num_bytes: int) -> None:
        # The margin is for the files that hold no arrays.
        self._bytes_needed = num_bytes + num_bytes // 20 + 2**20
        free = processes.broadcast_from_primary(
            lambda: shutil.disk_usage(self._directory).free
        )
        if free < self._bytes_needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _remove_leftovers(self) -> None:
        if not self._read_only and jax.process_index() == 0:
            for folder in self._directory.glob(f"*{TEMPORARY}"):
                shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _report_full_disk(self) -> Iterator[None]:
        """Removes a failed save, and turns any form of "disk full" into a UserError."""
        try:
            yield
        except Exception as error:
            # Any error of the caller's, Orbax's or TensorStore's threads leaves an
            # unfinished save. It is raised again unless the disk was full.
            free = shutil.disk_usage(self._directory).free
            self._remove_leftovers()
            self._manager.reload()  # Orbax forgets a step before it deletes it
            if not is_full(error):
                raise
            raise UserError(
                f"The disk of {self._directory} is full: a checkpoint needs "
                f"{self._bytes_needed:,} bytes in a few dozen files, and {free:,} "
                "bytes are free now; make room and rerun the same command (checkpoints "
                f"kept: {self.steps()})."
            ) from error
