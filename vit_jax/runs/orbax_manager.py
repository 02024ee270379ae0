"""Orbax, set up for the checkpoints of a run: what it writes, keeps and logs."""

import logging
import os
import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import orbax.checkpoint as ocp

from vit_jax.runs.manifest import write_manifest

TEMPORARY = ".orbax-checkpoint-tmp"  # Orbax's suffix of folders that do not count


class HashedStateHandler(ocp.StandardCheckpointHandler):
    """Orbax's handler of array trees, which also writes the manifest."""

    def finalize(self, directory: os.PathLike) -> None:
        """Called by Orbax, on the first process only, once all files are written."""
        super().finalize(directory)
        write_manifest(pathlib.Path(directory))


def make_manager(
    directory: pathlib.Path,
    handler: HashedStateHandler,
    *,
    steps_to_keep: Callable[[], Collection[int | None]],
    read_only: bool,
) -> ocp.CheckpointManager:
    """A manager of checkpoints of one item, "state".

    Args:
      directory: absolute; made unless `read_only`.
      handler: of that item.
      steps_to_keep: asked after each save; all other checkpoints are deleted.
      read_only: nothing is made or deleted.
    """
    logging.getLogger("absl").addFilter(_not_from_orbax)
    registry = ocp.handlers.DefaultCheckpointHandlerRegistry()
    registry.add("state", ocp.args.StandardSave, handler)
    return ocp.CheckpointManager(
        directory,
        options=ocp.CheckpointManagerOptions(
            create=not read_only,
            lightweight_initialize=True,  # a damaged file must not stop it
            preservation_policy=_Preserved(steps_to_keep),
            # Deleting in place could be cut short and leave half a checkpoint.
            todelete_subdir=None if read_only else f"deleted{TEMPORARY}",
            read_only=read_only,
        ),
        handler_registry=registry,
    )


def restore_arrays(folder: pathlib.Path, targets: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a saved state that `targets` names; the others are not read.

    Args:
      folder: of the state.
      targets: ShapeDtypeStructs with shardings, by name.
    """
    restore_args = ocp.checkpoint_utils.construct_restore_args(targets)
    args = ocp.args.PyTreeRestore(
        item=targets, restore_args=restore_args, partial_restore=True
    )
    return ocp.PyTreeCheckpointHandler().restore(folder, args=args)


class _Preserved:
    """Orbax's form of `steps_to_keep`."""

    def __init__(self, steps_to_keep: Callable[[], Collection[int | None]]):
        self._steps_to_keep = steps_to_keep

    def should_preserve(self, infos: Sequence[Any], *, context: Any) -> list[bool]:
        kept = self._steps_to_keep()
        return [info.step in kept for info in infos]


def _not_from_orbax(record: logging.LogRecord) -> bool:
    """Drops Orbax's log: its errors are raised too, and the rest is not the user's."""
    return f"{os.sep}orbax{os.sep}" not in record.pathname
