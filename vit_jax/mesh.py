"""The devices a run uses and how arrays lie on them: data parallel, one axis."""

from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from vit_jax.errors import UserError


def make_mesh(num_devices: int = 0) -> Mesh:
    """A mesh of one axis, "data", over the first `num_devices` devices (0: all).

    Raises:
      UserError: there are fewer devices than that.
    """
    devices = jax.devices()
    if num_devices > len(devices):
        raise UserError(
            f"config.num_devices is {num_devices}, but JAX sees {len(devices)} "
            f"({devices[0].platform}); ask for that many or fewer, or 0 for all."
        )
    devices = devices[: num_devices or len(devices)]
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
            f"(devices times accumulation steps); use {' or '.join(near)}."
        )


def fits(num_bytes: int, mesh: Mesh) -> bool:
    """Whether half the memory of each device would hold `num_bytes`.

    The other half is for parameters and activations. Devices that do not tell their
    memory's size, such as CPUs, hold whatever the host does.
    """
    limits = [(d.memory_stats() or {}).get("bytes_limit") for d in mesh.local_devices]
    return all(limit is None or num_bytes <= limit // 2 for limit in limits)


def put(tree: Any, sharding: NamedSharding) -> Any:
    """Host arrays, the same on every process, onto the mesh."""

    def put_array(x):
        return jax.make_array_from_callback(x.shape, sharding, lambda part: x[part])

    # An explicit copy, although JAX's guard takes this function for an implicit one.
    with jax.transfer_guard("allow"):
        return jax.tree.map(put_array, tree)
