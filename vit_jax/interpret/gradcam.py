"""What the stages of a ResNet respond to, and which of it speaks for a class."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float, Int, UInt8

from vit_jax.errors import UserError
from vit_jax.models import ResNet
from vit_jax.runs.load import Run


def feature_maps(
    run: Run, images: UInt8[np.ndarray, "batch height width channels"]
) -> dict[str, Float[np.ndarray, "batch rows columns features"]]:
    """Outputs of "stem", "stage1", "stage2", ..., after their last ReLU.

    Raises:
      UserError: the model is no ResNet.
    """
    if not isinstance(run.model, ResNet):
        raise UserError(
            f"{run.config.model.name} has no feature maps, which a ResNet has; look at "
            "its attention."
        )
    _, maps = _forward(run.variables, run.normalize(images), None, run.model, "")
    # jit hands dictionaries back in order of their keys.
    names = ["stem", *sorted(maps.keys() - {"stem"})]
    return {name: np.asarray(maps[name], np.float32) for name in names}


def grad_cam(
    run: Run,
    images: UInt8[np.ndarray, "batch height width channels"],
    classes: Int[np.ndarray, "batch"],
    stage: int | None = None,
) -> Float[np.ndarray, "batch rows columns"]:
    """Where a stage's features speak for a class; 0 or more, in units of the logit.

    Selvaraju et al., 2017, "Grad-CAM" (arXiv:1610.02391), equations 1 and 2: the
    features, each weighted by its mean gradient, summed, and only what is positive.

    Args:
      run: of a ResNet.
      images: as the model takes them.
      classes: to explain, one for each image.
      stage: from 1; None: the last.

    Raises:
      UserError: the model is no ResNet.
    """
    maps = feature_maps(run, images)
    stage = stage or len(run.model.stage_sizes)
    features = maps[f"stage{stage}"]
    gradients = _gradients(
        run.variables,
        run.normalize(images),
        jnp.zeros(features.shape),
        classes,
        run.model,
        f"stage{stage}_block{run.model.stage_sizes[stage - 1]}",
    )
    weights = np.asarray(gradients).mean(axis=(1, 2))
    return np.maximum(np.einsum("bijf,bf->bij", features, weights), 0)


@functools.partial(jax.jit, static_argnames=("model", "changed"))
def _forward(
    variables: Any,
    images: Float[Array, "b h w c"],
    offset: Float[Array, "b rows columns features"] | None,
    model: ResNet,
    changed: str,
) -> tuple[Array, dict[str, Array]]:
    """(logits, maps), with `offset` added to the output of the block `changed`."""

    def add_offset(call, arguments, options, context):
        output = call(*arguments, **options)
        is_changed = context.module.name == changed
        return output + offset.astype(output.dtype) if is_changed else output

    with nn.intercept_methods(add_offset):
        logits, state = model.apply(
            variables, images, train=False, mutable=["intermediates"]
        )
    seen = state["intermediates"]
    stages = ["stem", *(f"stage{i + 1}" for i in range(len(model.stage_sizes)))]
    return logits, {name: seen[name][0] for name in stages}


@functools.partial(jax.jit, static_argnames=("model", "changed"))
def _gradients(variables, images, offset, classes, model, changed):
    def chosen_logits(offset):
        logits, _ = _forward(variables, images, offset, model, changed)
        return jnp.take_along_axis(logits, jnp.asarray(classes)[:, None], axis=1).sum()

    return jax.grad(chosen_logits)(offset)
