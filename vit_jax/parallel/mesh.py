"""The devices of a run and the sharding of arrays: data parallelism, one axis."""

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from vit_jax.errors import UserError
from vit_jax.parallel import host_memory, processes


def make_mesh(num_devices: int = 0, among: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh of one axis, "data", over the first `num_devices` devices (0: all).

    With several processes these are the first devices of each, equally many.

    Args:
      among: the devices to choose from; None: all of JAX's default platform.

    Raises:
      UserError: there are fewer devices than that, or the processes cannot have equally
        many.
    """
    devices, num_processes = among or jax.devices(), jax.process_count()
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
    each, chosen = (num_devices or len(devices)) // num_processes, []
    for index in range(num_processes):
        chosen += [d for d in devices if d.process_index == index][:each]
    # linen does not support explicit axes, which are JAX's default.
    return jax.make_mesh(
        (len(chosen),), ("data",), axis_types=(AxisType.Auto,), devices=chosen
    )


def replicated(mesh: Mesh) -> NamedSharding:
    """Sharding with a whole copy on each device."""
    return NamedSharding(mesh, PartitionSpec())


def split_batch(mesh: Mesh) -> NamedSharding:
    """Sharding with the first axis in equal parts over the devices."""
    return NamedSharding(mesh, PartitionSpec("data"))


def split_batches(mesh: Mesh) -> NamedSharding:
    """Sharding with the second axis in equal parts; the first axis is the step."""
    return NamedSharding(mesh, PartitionSpec(None, "data"))


def state_shapes(mesh: Mesh, state: Any, *, split: bool) -> Any:
    """ShapeDtypeStructs of a training state with their shardings.

    Args:
      state: pytree of arrays or ShapeDtypeStructs.
      split: whether each device keeps and updates its own part of each large array
        only, as in ZeRO (Rajbhandari et al., 2020) and FSDP; XLA then gathers a
        parameter where it is used. The largest axis that the number of devices divides
        is split. An array without such an axis, or with fewer than 1,024 elements, is
        copied to each device; without `split` every array is.
    """

    def sharding(leaf):
        divisible = [n if n % mesh.size == 0 else 0 for n in leaf.shape]
        if not split or leaf.size < 1024 or not any(divisible):
            return replicated(mesh)
        axis = divisible.index(max(divisible))
        return NamedSharding(mesh, PartitionSpec(*[None] * axis, "data"))

    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding(x)), state
    )


def free_bytes(devices: Sequence[jax.Device]) -> int | None:
    """Smallest free memory, in bytes, of a process's own devices; None if unknown.

    CPU devices divide the host's free memory equally. Of devices that are only
    described, so that a program can be compiled for them, it is unknown.
    """
    if devices[0].platform == "cpu":
        free = host_memory.free_bytes()
        return None if free is None else free // len(devices)
    try:
        stats = [device.memory_stats() or {} for device in devices]
    except jax.errors.JaxRuntimeError:
        return None
    if not all("bytes_limit" in one for one in stats):
        return None
    return min(one["bytes_limit"] - one.get("bytes_in_use", 0) for one in stats)


def fits(num_bytes: int, mesh: Mesh) -> bool:
    """Whether `num_bytes` are at most half of each device's free memory.

    The other half is for activations. With several processes, process 0 decides for
    all by its own devices.
    """

    def fits_here() -> bool:
        free = free_bytes(mesh.local_devices)
        return free is None or num_bytes <= free // 2

    return processes.broadcast_from_primary(fits_here)


def put(tree: Any, sharding: NamedSharding) -> Any:
    """Copies host arrays, which are the same on every process, to the mesh."""

    def put_array(x):
        return jax.make_array_from_callback(x.shape, sharding, lambda part: x[part])

    # This copy is explicit, but JAX's transfer guard takes it for an implicit one.
    with jax.transfer_guard("allow"):
        return jax.tree.map(put_array, tree)
