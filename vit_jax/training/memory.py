"""Whether a training fits into memory, from its shapes alone."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
from flax import linen as nn
from jax.sharding import Mesh
from jaxtyping import Array, Key
from ml_collections import ConfigDict

from vit_jax import data, models
from vit_jax.models import memory
from vit_jax.parallel import mesh as meshes
from vit_jax.runs.load import Run


def eval_batch_size(
    config: ConfigDict, splits: dict[str, data.Dataset], num_devices: int
) -> int:
    """The setting, at most the largest split, as a multiple of the devices."""
    size = min(config.eval_batch_size, max(map(len, splits.values())))
    return math.ceil(size / num_devices) * num_devices


def require_memory_to_train(
    config: ConfigDict,
    splits: dict[str, data.Dataset],
    *,
    mesh: Mesh,
    model: nn.Module,
    input_shape: tuple[int, int, int],
    init_state: Callable,
    root_key: Key[Array, ""],
    num_microbatches: int,
    teacher: Run | None,
) -> None:
    """Refuses a training that takes more memory than is free on a device.

    Half of the outputs of all layers is counted for a training step: what the compiler
    keeps of them was 0.7 to 1.5 times as much as their sum (ViT-Tiny, ResNet-18). After
    compiling, `dispatch` compares what it really keeps. A teacher has no gradient, nor
    has an evaluation, and the largest output of a layer is counted for each.

    Raises:
      UserError: says what takes the most.
    """
    parts = mesh.size if config.shard_params else 1
    variables = jax.eval_shape(
        functools.partial(models.init_variables, model, image_shape=input_shape),
        root_key,
    )
    read, seen = math.prod(splits["train"].images.shape[1:]), math.prod(input_shape)
    batch_size = config.batch_size // mesh.size
    in_layers = sum(memory.activation_bytes(model, variables, input_shape))
    on_device = config.data.placement == "device"
    state = memory.num_bytes(jax.eval_shape(init_state, root_key)) // parts
    in_step = batch_size // num_microbatches
    kept = {
        "the training images": splits["train"].images.nbytes * on_device,
        "parameters and the optimizer's state (config.model)": state,
    }
    of_teacher = {}
    if teacher is not None:
        outputs = memory.activation_bytes(
            teacher.model, teacher.variables, teacher.input_shape
        )
        of_teacher = {
            "the teacher (config.distill.teacher)": memory.num_bytes(teacher.variables),
            "the teacher's largest output for a batch (config.distill.teacher, "
            "config.batch_size)": in_step * max(outputs),
        }
    memory.require_memory(
        kept
        | of_teacher
        | {
            "gradients (config.model)": memory.num_bytes(variables["params"]) // parts,
            "a batch of images (config.batch_size)": batch_size * (read + 4 * seen),
            "the layers' outputs for a batch (config.batch_size)": (
                in_layers * in_step // 2
            ),
        },
        meshes.free_bytes(mesh),
    )
    # An evaluation comes between two steps, when nothing is left of them.
    require_memory_to_score(
        model,
        variables,
        splits["train"].images.shape[1:],
        input_shape,
        batch_size=eval_batch_size(config, splits, mesh.size) // mesh.size,
        mesh=mesh,
        kept=kept,
    )


def require_memory_to_score(
    model: nn.Module,
    variables: Any,
    image_shape: tuple[int, ...],
    input_shape: tuple[int, int, int],
    *,
    batch_size: int,
    mesh: Mesh,
    kept: dict[str, int] | None = None,
) -> None:
    """Refuses an evaluation that takes more memory than is free on a device.

    Args:
      variables: arrays, or their shapes.
      image_shape: of an image as it is stored.
      input_shape: of an image as the model sees it.
      batch_size: images on each device.
      kept: bytes of what is there besides, by what it is.

    Raises:
      UserError: says what takes the most.
    """
    read, seen = math.prod(image_shape), math.prod(input_shape)
    largest = max(memory.activation_bytes(model, variables, input_shape))
    setting = "(config.eval_batch_size)"
    needs = {
        f"images to score {setting}": batch_size * (read + 4 * seen),
        f"the largest output for images to score {setting}": batch_size * largest,
    }
    memory.require_memory((kept or {}) | needs, meshes.free_bytes(mesh))
