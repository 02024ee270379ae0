"""What a train step minimises.

An objective is a function of

    variables: {"params", "batch_stats"} and, where BatchNorms are frozen, "frozen",
    images: float32 [b, h, w, c], augmented,
    targets: float32 [b, classes], a distribution over the classes for each image,
    key: for dropout and other draws,
    teacher: variables of a teacher, or None,

which returns (loss, (metrics, BatchNorm's next statistics)). Its metrics are float32
scalars: "loss" and, of a classification, "accuracy" and "weighted_accuracy".
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Float, Int, Key

from vit_jax.models import MaskedAutoencoder, mae

Metrics = dict[str, Float[Array, ""]]
Objective = Callable[..., tuple[Float[Array, ""], tuple[Metrics, Any]]]


def classification(
    variables: dict[str, Any],
    images: Float[Array, "b h w c"],
    targets: Float[Array, "b classes"],
    key: Key[Array, ""],
    teacher: Any = None,
    *,
    model: nn.Module,
    label_smoothing: float = 0.0,
) -> tuple[Float[Array, ""], tuple[Metrics, Any]]:
    """`cross_entropy` of the model's logits and the targets, as an objective."""
    logits, updates = model.apply(
        variables, images, train=True, rngs={"dropout": key}, mutable=["batch_stats"]
    )
    loss, metrics = cross_entropy(logits, targets, label_smoothing)
    return loss, (metrics, updates.get("batch_stats", {}))


def masked_autoencoding(
    variables: dict[str, Any],
    images: Float[Array, "b h w c"],
    targets: Float[Array, "b classes"],
    key: Key[Array, ""],
    teacher: Any = None,
    *,
    model: MaskedAutoencoder,
) -> tuple[Float[Array, ""], tuple[Metrics, Any]]:
    """The mean of `reconstruction_losses`, as an objective; the targets are not used.

    Which patches of an image are visible is drawn anew in each step.
    """
    mask_key, dropout_key = jax.random.split(key)
    keys = jax.random.split(mask_key, len(images))
    visible = model.draw_visible(keys, images.shape[1:])
    predicted, updates = model.apply(
        variables, images, visible, train=True, rngs={"dropout": dropout_key},
        mutable=["batch_stats"],
    )  # fmt: skip
    loss = reconstruction_losses(predicted, images, visible, model.patch_size).mean()
    return loss, ({"loss": loss}, updates.get("batch_stats", {}))


def reconstruction_losses(
    predicted: Float[Array, "batch patches values"],
    images: Float[Array, "batch height width channels"],
    visible: Int[Array, "batch visible"],
    patch_size: int,
) -> Float[Array, "batch"]:
    """Mean squared error over the hidden patches of each image (He et al., 2022).

    The targets are the values of each patch, normalised by the mean and the standard
    deviation of that patch, so that 1 is the error of its mean.
    """
    mean, deviation = mae.patch_statistics(images, patch_size)
    targets = (mae.to_patches(images, patch_size) - mean) / deviation
    errors = jnp.square(predicted - targets).mean(axis=-1)
    hidden = mae.hidden_patches(visible, errors.shape[1])
    return (errors * hidden).sum(axis=1) / hidden.sum(axis=1)


def cross_entropy(
    logits: Float[Array, "batch classes"],
    targets: Float[Array, "batch classes"],
    label_smoothing: float = 0.0,
) -> tuple[Float[Array, ""], Metrics]:
    """Mean cross-entropy in nats, and two accuracies.

    Args:
      logits: of the model.
      targets: a distribution over the classes for each image, mixed and smoothed.
      label_smoothing: the fraction of each target that is spread over all classes.

    Returns:
      The loss; and "loss", "accuracy" (against each target's largest class) and
      "weighted_accuracy", where the predicted class counts by its fraction of the mixed
      image, lambda or 1 - lambda under MixUp and CutMix. Without mixing both are equal.
    """
    loss = optax.losses.softmax_cross_entropy(logits, targets).mean()
    predicted = logits.argmax(-1)
    accuracy = jnp.mean(predicted == targets.argmax(-1))
    picked = jnp.take_along_axis(targets, predicted[:, None], axis=1).mean()
    num_classes = targets.shape[-1]
    weighted = (picked - label_smoothing / num_classes) / (1 - label_smoothing)
    return loss, {"loss": loss, "accuracy": accuracy, "weighted_accuracy": weighted}
