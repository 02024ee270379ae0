"""The GPUs that a forecast knows: one file of public figures for each, in targets/.

A file has the `name` of the GPU, the `devices` as JAX names them (others of a similar
name have another memory), the `source` of its figures, `flops`, the operations per
second of matrix products by the type of their factors (f32 as TF32, where the GPU
has that), and `target`, from which XLA compiles: its GpuTargetConfigProto.
"""

import contextlib
import dataclasses
import importlib.util
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from vit_jax.errors import UserError, require_known

_FOLDER = pathlib.Path(__file__).parent / "targets"
_DATA_FLAG = "--xla_gpu_cuda_data_dir"


@dataclasses.dataclass(frozen=True)
class Target:
    """A GPU by its public figures.

    Attributes:
      devices: the `device_kind` of the GPUs that it describes.
      flops: of matrix products per second: "bf16", "f16" and "f32".
      description: the GpuTargetConfigProto as nested dictionaries.
    """

    name: str
    devices: tuple[str, ...]
    flops: dict[str, int]
    description: dict[str, Any]

    @property
    def bytes_per_second(self) -> int:
        """Of the device's memory."""
        return self.description["gpu_device_info"]["memory_bandwidth"]

    @property
    def memory_bytes(self) -> int:
        return self.description["gpu_device_info"]["device_memory_size"]

    @property
    def scalar_ops_per_second(self) -> float:
        """Of the cores that compute everything but matrix products."""
        info = self.description["gpu_device_info"]
        return info["core_count"] * info["fpus_per_core"] * info["clock_rate_ghz"] * 1e9


def target_names() -> list[str]:
    """The targets that have a file."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def load_target(name: str) -> Target:
    """The target of a name.

    Raises:
      UserError: there is no such target.
    """
    names = target_names()
    where = f"add a file beside those in {_FOLDER}, or take"
    require_known(name, names, "target", where)
    content = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return Target(
        content["name"], tuple(content["devices"]), content["flops"], content["target"]
    )


def can_compile() -> bool:
    """Whether the packages of the extra `forecast` are installed."""
    parts = ("jax_plugins.xla_cuda13", "nvidia.cu13")
    with contextlib.suppress(ModuleNotFoundError):
        return all(importlib.util.find_spec(part) for part in parts)
    return False


def set_environment() -> None:
    """Lets XLA find NVIDIA's compiler, and JAX compute on the CPU.

    It comes before JAX is imported, which reads the environment then.

    Raises:
      UserError: the packages of the extra `forecast` are missing.
    """
    if not can_compile():
        raise UserError(
            "A forecast compiles with packages that are not installed; install them "
            "with pip install -e '.[forecast]', which needs no GPU."
        )
    os.environ["JAX_PLATFORMS"] = "cpu"
    flags = os.environ.get("XLA_FLAGS", "")
    if _DATA_FLAG not in flags:
        import nvidia

        folder = pathlib.Path(next(iter(nvidia.__path__))) / "cu13"
        os.environ["XLA_FLAGS"] = f"{flags} {_DATA_FLAG}={folder}".strip()


def describe_devices(target: Target, num_devices: int = 1) -> list[Any]:
    """The `jax.Device`s of a machine with several GPUs, to compile programs for.

    `set_environment` comes first. Nothing can be put on these devices.
    """
    from jax.experimental import topologies

    name = f"1x1x{num_devices}"
    topology = topologies.get_topology_desc(
        name,
        "cuda",
        target_config="\n".join(_as_text(target.description)),
        topology=name,
    )
    return topology.devices


def _as_text(message: dict[str, Any]) -> Iterator[str]:
    """The text form of a protocol buffer."""
    for key, value in message.items():
        if isinstance(value, dict):
            yield f"{key} {{"
            yield from _as_text(value)
            yield "}"
        else:
            yield f"{key}: {json.dumps(value)}"
