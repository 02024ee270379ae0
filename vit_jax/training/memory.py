"""Whether a training fits into memory, from its shapes alone."""

import math
from typing import Any

from vit_jax import augment, models
from vit_jax.models import memory
from vit_jax.parallel import mesh as meshes


def require_memory_to_train(experiment: Any) -> None:
    """Refuses a training that takes more memory than is free on a device.

    A training step counts half of the sum of all layers' outputs. That is less than it
    takes, so that nothing which fits is refused: compiled steps of ViT-Tiny and
    ResNet-18 took 0.7 to 1.5 times the sum. `dispatch` compares what a compiled step
    really takes. A teacher and an evaluation compute no gradient, and each counts the
    largest output of a layer.

    `experiment` is an `experiment.Experiment`, which this module cannot import. Its
    teacher need not be on the devices yet.

    Raises:
      UserError: says what takes the most.
    """
    config, mesh, model = experiment.stage_config, experiment.mesh, experiment.model
    images, teacher = experiment.splits["train"].images, experiment.teacher_run
    image_shape, free = images.shape[1:], meshes.free_bytes(mesh)
    input_shape = augment.input_shape(image_shape, config.data.resize)
    parts = mesh.size if config.shard_params else 1
    variables = models.variable_shapes(model, input_shape)
    read, seen = math.prod(image_shape), math.prod(input_shape)
    batch_size = config.batch_size // mesh.size
    in_layers = sum(memory.activation_bytes(model, input_shape))
    on_device = config.data.placement == "device"
    state = memory.num_bytes(experiment.state_shapes) // parts
    in_step = batch_size // experiment.num_microbatches
    kept = {
        "the training images": images.nbytes * on_device,
        "parameters and the optimizer's state (config.model)": state,
    }
    of_teacher = {}
    if teacher is not None:
        outputs = memory.activation_bytes(teacher.model, teacher.input_shape)
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
        free,
    )
    # An evaluation comes between two steps, when nothing is left of them.
    memory.require_memory_to_score(
        model,
        image_shape,
        input_shape,
        batch_size=experiment.eval_batch_size // mesh.size,
        free=free,
        kept=kept,
    )
