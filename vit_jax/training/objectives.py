"""What a train step minimises.

An objective is a function of

    variables: {"params", "batch_stats"} and, where BatchNorms are frozen, "frozen",
    images: float32 [b, h, w, c], augmented,
    targets: float32 [b, classes], a distribution over the classes for each image,
    key: for dropout and other draws,
    teacher: variables of a teacher, or None,

which returns (loss, (metrics, BatchNorm's next statistics)). Its metrics are float32
scalars, of which "loss", "accuracy" and "weighted_accuracy" are always there.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Float, Key

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
