"""The devices a run uses and how arrays lie on them: data parallel, one axis."""

import pathlib
import re
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from vit_jax.errors import UserError
from vit_jax.parallel import host_memory, processes


def make_mesh(num_devices: int = 0) -> Mesh:
    """A mesh of one axis, "data", over the first `num_devices` devices (0: all).

    With several processes these are equally many from each, the first of each.

    Raises:
      UserError: there are fewer devices than that, or they cannot be divided so.
    """
    devices, num_processes = jax.devices(), jax.process_count()
    if num_devices > len(devices):
        raise UserError(
            f"config.num_devices is {num_devices}, but JAX sees {len(devices)} "
            f"({devices[0].platform}); ask for that many or fewer, or 0 for all."
        )
    if num_devices % num_processes:
        raise UserError(
            f"config.num_devices is {num_devices}, but {num_processes} processes have "
            "to use equally many devices; give a multiple of that, or 0 for all."
        )
    num_devices = num_devices or len(devices)
    devices = [
        device
        for index in range(num_processes)
        for device in [d for d in devices if d.process_index == index][
            : num_devices // num_processes
        ]
    ]
    # linen's parameters know nothing of JAX's default, explicit axes.
    return jax.make_mesh(
        (len(devices),), ("data",), axis_types=(AxisType.Auto,), devices=devices
    )


def replicated(mesh: Mesh) -> NamedSharding:
    """A whole copy on each device."""
    return NamedSharding(mesh, PartitionSpec())


def split_batch(mesh: Mesh) -> NamedSharding:
    """The first axis in equal parts over the devices."""
    return NamedSharding(mesh, PartitionSpec("data"))


def split_batches(mesh: Mesh) -> NamedSharding:
    """The second axis in equal parts over the devices; the first one is the step."""
    return NamedSharding(mesh, PartitionSpec(None, "data"))


def split_state(mesh: Mesh, state: Any) -> Any:
    """Each large array of a training state in equal parts over the devices.

    As in ZeRO (Rajbhandari et al., 2020) and FSDP: XLA gathers a parameter where it is
    used, and each device keeps and updates its own part only. The largest axis that the
    number of devices divides is cut; an array without one, or with fewer than 1,024
    elements, stays whole on each.

    Args:
      state: pytree of arrays or ShapeDtypeStructs.

    Returns:
      The same pytree with shardings for leaves.
    """

    def sharding(leaf):
        divisible = [n if n % mesh.size == 0 else 0 for n in leaf.shape]
        if leaf.size < 1024 or not any(divisible):
            return replicated(mesh)
        axis = divisible.index(max(divisible))
        return NamedSharding(mesh, PartitionSpec(*[None] * axis, "data"))

    return jax.tree.map(sharding, state)


def check_batch_size(batch_size: int, num_parts: int) -> None:
    """Refuses a training batch that cannot be cut into equal parts.

    Args:
      num_parts: devices times slices of gradient accumulation.

    Raises:
      UserError: naming both numbers and the nearest sizes that work.
    """
    if batch_size % num_parts:
        below = batch_size // num_parts * num_parts
        near = [str(size) for size in (below, below + num_parts) if size]
        raise UserError(
            f"config.batch_size is {batch_size}, but must be a multiple of {num_parts} "
            f"(devices of all processes times accumulation steps); use "
            f"{' or '.join(near)}."
        )


def free_bytes(mesh: Mesh) -> int | None:
    """Free memory of the fullest of this process's devices; None if unknown.

    CPU devices have an equal share of what the host has free.
    """
    devices = mesh.local_devices
    if devices[0].platform == "cpu":
        host_memory.return_freed_memory()
        try:
            text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
        except OSError:  # no Linux
            return None
        found = re.search(r"MemAvailable: *(\d+) kB", text)
        return int(found[1]) * 1024 // len(devices) if found else None
    stats = [device.memory_stats() or {} for device in devices]
    if not all("bytes_limit" in one for one in stats):
        return None
    return min(one["bytes_limit"] - one.get("bytes_in_use", 0) for one in stats)


def fits(num_bytes: int, mesh: Mesh) -> bool:
    """Whether half of each device's free memory would hold `num_bytes`.

    The other half is for activations. With several processes, the first one's devices
    decide for all.
    """

    def fits_here() -> bool:
        free = free_bytes(mesh)
        return free is None or num_bytes <= free // 2

    return processes.broadcast_from_primary(fits_here)


def put(tree: Any, sharding: NamedSharding) -> Any:
    """Host arrays, the same on every process, onto the mesh."""

    def put_array(x):
        return jax.make_array_from_callback(x.shape, sharding, lambda part: x[part])

    # An explicit copy, although JAX's guard takes this function for an implicit one.
    with jax.transfer_guard("allow"):
        return jax.tree.map(put_array, tree)
