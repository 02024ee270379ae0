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

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Float, Int, Key
from ml_collections import ConfigDict

from vit_jax.models import MaskedAutoencoder, mae
from vit_jax.runs.run import Run
from vit_jax.training.teacher import logits_of

Metrics = dict[str, Float[Array, ""]]
Objective = Callable[..., tuple[Float[Array, ""], tuple[Metrics, Any]]]


def make_objective(
    config: ConfigDict,
    model: nn.Module,
    teacher: Run | None,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """The objective that a resolved config describes."""
    if config.objective == "masked_autoencoding":
        return functools.partial(masked_autoencoding, model=model)
    options = {
        "model": model,
        "label_smoothing": config.augment.label_smoothing,
        "class_weights": class_weights,
    }
    if teacher is None:
        return functools.partial(classification, **options)
    return functools.partial(
        distillation,
        **options,
        teacher_logits=logits_of(teacher, config.data),
        kind=config.distill.kind,
        alpha=config.distill.alpha,
        temperature=config.distill.temperature,
    )


def classification(
    variables: dict[str, Any],
    images: Float[Array, "b h w c"],
    targets: Float[Array, "b classes"],
    key: Key[Array, ""],
    teacher: Any = None,
    *,
    model: nn.Module,
    label_smoothing: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> tuple[Float[Array, ""], tuple[Metrics, Any]]:
    """`cross_entropy` of the model's logits and the targets, as an objective."""
    logits, updates = model.apply(
        variables, images, train=True, rngs={"dropout": key}, mutable=["batch_stats"]
    )
    loss, metrics = cross_entropy(logits, targets, label_smoothing, class_weights)
    return loss, (metrics, updates.get("batch_stats", {}))


def distillation(
    variables: dict[str, Any],
    images: Float[Array, "b h w c"],
    targets: Float[Array, "b classes"],
    key: Key[Array, ""],
    teacher: Any,
    *,
    model: nn.Module,
    label_smoothing: float,
    teacher_logits: Callable[[Any, Any], Any],
    kind: str,
    alpha: float,
    temperature: float,
    class_weights: Sequence[float] | None = None,
) -> tuple[Float[Array, ""], tuple[Metrics, Any]]:
    """The loss against the targets and that against a teacher, as one objective.

    The loss is (1 - alpha) times the cross-entropy with the targets, plus alpha times
    `teacher_loss`. With a distillation token, its head alone learns from the teacher,
    and the class token's head alone from the targets (Touvron et al., 2021, section 4);
    the accuracies are those of the mean of both.

    The metric "teacher_accuracy" is the teacher's, on the same augmented images.

    Args:
      label_smoothing, class_weights: see `cross_entropy`.
      teacher_logits: (variables, images) -> logits of the teacher.
      kind, temperature: see `teacher_loss`.
      alpha: 0 to 1.
    """
    logits, updates = model.apply(
        variables,
        images,
        train=True,
        rngs={"dropout": key},
        mutable=["batch_stats", "heads"],
    )
    heads = updates.get("heads", {"class": [logits], "distillation": [logits]})
    theirs = jax.lax.stop_gradient(teacher_logits(teacher, images))
    _, metrics = cross_entropy(logits, targets, label_smoothing)
    from_targets, _ = cross_entropy(
        heads["class"][0], targets, label_smoothing, class_weights
    )
    from_teacher = teacher_loss(
        heads["distillation"][0], theirs, kind=kind, temperature=temperature
    )
    loss = (1 - alpha) * from_targets + alpha * from_teacher
    metrics["loss"] = loss
    metrics["teacher_accuracy"] = jnp.mean(theirs.argmax(-1) == targets.argmax(-1))
    return loss, (metrics, updates.get("batch_stats", {}))


def teacher_loss(
    logits: Float[Array, "batch classes"],
    teacher_logits: Float[Array, "batch classes"],
    *,
    kind: str,
    temperature: float,
) -> Float[Array, ""]:
    """How far a model is from its teacher, in nats, the mean over a batch.

    Args:
      kind: "hard": the cross-entropy with the teacher's most probable class (Touvron et
        al., 2021, arXiv:2012.12877, equation 3). "soft": the Kullback-Leibler
        divergence from the teacher's probabilities to the model's, both of logits over
        `temperature`, times temperature squared, so that the size of its gradient does
        not depend on it (Hinton et al., 2015, arXiv:1503.02531, section 2).
    """
    if kind == "hard":
        classes = teacher_logits.argmax(-1)
        return optax.losses.softmax_cross_entropy_with_integer_labels(
            logits, classes
        ).mean()
    divergence = optax.losses.kl_divergence_with_log_targets(
        nn.log_softmax(logits / temperature),
        nn.log_softmax(teacher_logits / temperature),
    )
    return temperature**2 * divergence.mean()


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
) -> Float[Array, " batch"]:
    """Mean squared error over the hidden patches of each image (He et al., 2022).

    The targets are the values of each patch, normalised by the mean and the standard
    deviation of that patch, so that 1 is the error of its mean.
    """
    mean, std = mae.patch_statistics(images, patch_size)
    targets = (mae.to_patches(images, patch_size) - mean) / std
    errors = jnp.square(predicted - targets).mean(axis=-1)
    hidden = mae.hidden_patches(visible, errors.shape[1])
    return (errors * hidden).sum(axis=1) / hidden.sum(axis=1)


def cross_entropy(
    logits: Float[Array, "batch classes"],
    targets: Float[Array, "batch classes"],
    label_smoothing: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> tuple[Float[Array, ""], Metrics]:
    """Mean cross-entropy in nats, and two accuracies.

    Args:
      targets: a distribution over the classes for each image, mixed and smoothed.
      label_smoothing: the fraction of each target that is spread over all classes.
      class_weights: factor of the losses of each class's images; a mixed image has the
        mean of its classes' factors. None: 1.

    Returns:
      The loss; and "loss", "accuracy" (against each target's largest class) and
      "weighted_accuracy", where the predicted class counts by its fraction of the mixed
      image, lambda or 1 - lambda under MixUp and CutMix. Without mixing both are equal.
    """
    losses = optax.losses.softmax_cross_entropy(logits, targets)
    if class_weights is not None:
        # A factor on each class's part of a smoothed target would move its largest part
        # to a rare class.
        labels = (targets - label_smoothing / targets.shape[-1]) / (1 - label_smoothing)
        losses *= labels @ jnp.asarray(class_weights)
    loss = losses.mean()
    predicted = logits.argmax(-1)
    accuracy = jnp.mean(predicted == targets.argmax(-1))
    picked = jnp.take_along_axis(targets, predicted[:, None], axis=1).mean()
    num_classes = targets.shape[-1]
    weighted = (picked - label_smoothing / num_classes) / (1 - label_smoothing)
    return loss, {"loss": loss, "accuracy": accuracy, "weighted_accuracy": weighted}
