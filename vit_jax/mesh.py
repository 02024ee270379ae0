"""The devices a run uses and how arrays lie on them: data parallel, one axis."""

from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from vit_jax import agreement
from vit_jax.errors import UserError


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


def fits(num_bytes: int, mesh: Mesh) -> bool:
    """Whether half the memory of each device would hold `num_bytes`.

    The other half is for parameters and activations. Devices that do not tell their
    memory's size, such as CPUs, hold whatever the host does. With several processes,
    the first one's devices decide for all.
    """

    def fits_here() -> bool:
        stats = [device.memory_stats() or {} for device in mesh.local_devices]
        limits = [one.get("bytes_limit") for one in stats]
        return all(limit is None or num_bytes <= limit // 2 for limit in limits)

    return agreement.first_decides(fits_here)


def put(tree: Any, sharding: NamedSharding) -> Any:
    """Host arrays, the same on every process, onto the mesh."""

    def put_array(x):
        return jax.make_array_from_callback(x.shape, sharding, lambda part: x[part])

    # An explicit copy, although JAX's guard takes this function for an implicit one.
    with jax.transfer_guard("allow"):
        return jax.tree.map(put_array, tree)
