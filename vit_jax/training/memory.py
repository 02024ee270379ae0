"""Whether a training fits into the memory, from its shapes alone."""

import math

import numpy as np
from flax import linen as nn
from jax.sharding import Mesh
from jaxtyping import UInt8
from ml_collections import ConfigDict

from vit_jax import augment
from vit_jax.models import memory
from vit_jax.parallel import mesh as meshes
from vit_jax.runs.run import Run
from vit_jax.training import trainable
from vit_jax.training.train_state import TrainState


def require_memory_to_train(
    config: ConfigDict,
    mesh: Mesh,
    model: nn.Module,
    images: UInt8[np.ndarray, "n height width channels"],
    state: TrainState,
    teacher: Run | None,
    *,
    trained: frozenset[str] | None,
    num_microbatches: int,
    eval_batch_size: int,
) -> None:
    """Refuses a training that takes more memory than is free on a device.

    A training step counts half of the sum of all layers' outputs. That is less than it
    takes, so that nothing which fits is refused: compiled steps of ViT-Tiny and
    ResNet-18 took 0.7 to 1.5 times the sum. `dispatch` compares what a compiled step
    really takes. Layers before the first trained one, a teacher and an evaluation need
    no gradient: where only a part is trained, the largest output of a layer counts, as
    it does for these. A linear probe takes no step.

    Args:
      config: of the stage, complete.
      images: that are trained on.
      state: its shapes.
      trained, num_microbatches, eval_batch_size: see `experiment.Experiment`.

    Raises:
      UserError: says what takes the most.
    """
    image_shape, free = images.shape[1:], meshes.free_bytes(mesh.local_devices)
    input_shape = augment.input_shape(image_shape, config.data.resize)
    parts = mesh.size if config.shard_params else 1
    # The model's input is kept for the gradient of the first layer only.
    read, seen = math.prod(image_shape), math.prod(input_shape) * (trained is None)
    batch_size = config.batch_size // mesh.size
    in_step = batch_size // num_microbatches
    outputs = memory.activation_bytes(model, input_shape)
    in_layers = sum(outputs) // 2 if trained is None else max(outputs)
    with_gradients, _ = trainable.split(state.params, trained)
    on_device = config.data.placement == "device" and not config.linear_probe
    kept = {
        "the training images": images.nbytes * on_device,
        "parameters and the optimizer's state (config.model)": (
            memory.num_bytes(state) // parts
        ),
    }
    of_step = {
        "gradients (config.model)": memory.num_bytes(with_gradients) // parts,
        "a batch of images (config.batch_size)": batch_size * (read + 4 * seen),
        "the layers' outputs for a batch (config.batch_size)": in_layers * in_step,
    }
    if teacher is not None:
        outputs = memory.activation_bytes(teacher.model, teacher.input_shape)
        of_step |= {
            "the teacher (config.distill.teacher)": memory.num_bytes(teacher.variables),
            "the teacher's largest output for a batch (config.distill.teacher, "
            "config.batch_size)": in_step * max(outputs),
        }
    if not config.linear_probe:
        memory.require_memory(kept | of_step, free)
    # An evaluation comes between two steps, when nothing is left of them.
    memory.require_memory_to_score(
        model,
        image_shape,
        input_shape,
        batch_size=eval_batch_size // mesh.size,
        free=free,
        kept=kept,
    )
