"""Feature maps of a ResNet, and Grad-CAM: where they raise the logit of a class."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float, Int, UInt8

from vit_jax.models import ResNet
from vit_jax.runs.run import Run


def feature_maps(
    run: Run, images: UInt8[np.ndarray, "batch height width channels"]
) -> dict[str, Float[np.ndarray, "batch rows columns features"]]:
    """Outputs of a ResNet's "stem", "stage1", "stage2", ..., after their last ReLU."""
    sown = _forward(run.variables, run.normalize(images), run.model)
    names = ["stem", *(f"stage{i + 1}" for i in range(len(run.model.stage_sizes)))]
    # jit hands dictionaries back in order of their keys.
    return {name: np.asarray(sown[name][0], np.float32) for name in names}


def grad_cam(
    run: Run,
    images: UInt8[np.ndarray, "batch height width channels"],
    classes: Int[np.ndarray, " batch"],
    stage: int | None = None,
) -> Float[np.ndarray, "batch rows columns"]:
    """Where a stage of a ResNet raises the logit of a class; 0 or more, in its units.

    Selvaraju et al., 2017, "Grad-CAM" (arXiv:1610.02391), equations 1 and 2: the
    features, each weighted by its mean gradient, summed, and only what is positive.

    Args:
      images: as the model takes them.
      classes: to explain, one for each image.
      stage: from 1; None: the last.
    """
    name = f"stage{stage or len(run.model.stage_sizes)}"
    features = feature_maps(run, images)[name]
    offsets = {name: jnp.zeros(features.shape, run.model.dtype)}
    gradients = logit_gradients(
        run.variables, run.normalize(images), classes, offsets, run.model
    )
    weights = np.asarray(gradients[name], np.float32).mean(axis=(1, 2))
    return np.maximum(np.einsum("bijf,bf->bij", features, weights), 0)


@functools.partial(jax.jit, static_argnames="model")
def _forward(
    variables: Any, images: Float[Array, "b h w c"], model: ResNet
) -> dict[str, tuple[Array]]:
    """All that the model sows, such as the feature maps of the stem."""
    _, state = model.apply(variables, images, train=False, mutable=["intermediates"])
    return state["intermediates"]


@functools.partial(jax.jit, static_argnames="model")
def logit_gradients(
    variables: Any,
    images: Float[Array, "b h w c"],
    classes: Int[Array | np.ndarray, " b"],
    offsets: Any,
    model: nn.Module,
) -> Any:
    """Derivative of each image's logit of its class by what `offsets` are added to.

    Args:
      offsets: the collection "perturbations", all 0; the result has its form.
    """

    def chosen_logits(offsets):
        logits = model.apply(
            {**variables, "perturbations": offsets}, images, train=False
        )
        return jnp.take_along_axis(logits, jnp.asarray(classes)[:, None], axis=1).sum()

    return jax.grad(chosen_logits)(offsets)
