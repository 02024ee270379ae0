"""Orbax, set up for the checkpoints of a run: what it writes, keeps and logs."""

import logging
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import orbax.checkpoint as ocp

from vit_jax.runs.manifest import write_manifest

TEMPORARY = ".orbax-checkpoint-tmp"  # Orbax's suffix of unfinished folders


class HashedStateHandler(ocp.StandardCheckpointHandler):
    """Orbax's handler of array trees, which also writes the manifest."""

    def finalize(self, directory: os.PathLike) -> None:
        """Orbax calls this on the primary process only, once all files are written."""
        super().finalize(directory)
        write_manifest(pathlib.Path(directory))


def make_manager(
    directory: pathlib.Path,
    handler: HashedStateHandler,
    *,
    policy: Any,
    read_only: bool,
) -> ocp.CheckpointManager:
    """A manager of checkpoints of one item, "state".

    Args:
      directory: an absolute path; it is created unless `read_only`.
      policy: an `ocp.checkpoint_managers.PreservationPolicy`.
    """
    logging.getLogger("absl").addFilter(_not_from_orbax)
    registry = ocp.handlers.DefaultCheckpointHandlerRegistry()
    registry.add("state", ocp.args.StandardSave, handler)
    return ocp.CheckpointManager(
        directory,
        options=ocp.CheckpointManagerOptions(
            create=not read_only,
            lightweight_initialize=True,  # so that it opens with damaged files
            preservation_policy=policy,
            # A deletion in place that is interrupted would leave half a checkpoint.
            todelete_subdir=None if read_only else f"deleted{TEMPORARY}",
            read_only=read_only,
        ),
        handler_registry=registry,
    )


def restore_arrays(folder: pathlib.Path, targets: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a saved state that `targets` names; the others are not read.

    Args:
      folder: of the state.
      targets: arrays or ShapeDtypeStructs by name. An array is placed by its sharding;
        without one, on the first device.
    """
    device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    targets = {
        name: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=leaf.sharding or device
        )
        for name, leaf in targets.items()
    }
    restore_args = ocp.checkpoint_utils.construct_restore_args(targets)
    args = ocp.args.PyTreeRestore(
        item=targets, restore_args=restore_args, partial_restore=True
    )
    with jax.transfer_guard("allow"):
        return ocp.PyTreeCheckpointHandler().restore(folder, args=args)


def _not_from_orbax(record: logging.LogRecord) -> bool:
    """Drops Orbax's log: its errors are raised, too, and users do not need the rest."""
    return f"{os.sep}orbax{os.sep}" not in record.pathname
