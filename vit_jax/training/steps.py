"""The training state and what one step does to it: pure functions, jitted by others."""

from collections.abc import Callable
from typing import Any

import flax
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Float, Int, Key, UInt8

from vit_jax import models
from vit_jax.training import rng

Metrics = dict[str, Float[Array, ""]]


@flax.struct.dataclass
class TrainState:
    """Everything that training changes. No random key: see `rng.key_for`.

    Attributes:
      step: optimizer steps done, int32 scalar.
      params: float32 parameters.
      batch_stats: BatchNorm's running statistics; {} for models without.
      ema: moving averages {"params", "batch_stats"}, or None when switched off. The
        statistics are averaged, too: those of today do not fit yesterday's weights.
      opt_state: the optimizer's.
    """

    # Any, since JAX rebuilds the state with shapes or shardings in place of arrays.
    step: Any
    params: Any
    batch_stats: Any
    ema: Any
    opt_state: Any

    @property
    def variables(self) -> dict[str, Any]:
        """What evaluation uses: the averaged parameters where there are any."""
        if self.ema is not None:
            return self.ema
        return {"params": self.params, "batch_stats": self.batch_stats}


def init_state(
    root_key: Key[Array, ""],
    *,
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    image_shape: tuple[int, int, int],
    use_ema: bool,
) -> TrainState:
    """The state before the first step."""
    key = rng.key_for(root_key, "init", 0)
    variables = models.init_variables(model, key, image_shape)
    variables = {"batch_stats": {}, **variables}
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        **variables,
        # A copy, because a donated state may not hold one buffer twice.
        ema=jax.tree.map(jnp.copy, variables) if use_ema else None,
        opt_state=optimizer.init(variables["params"]),
    )


def loss_and_metrics(
    logits: Float[Array, "batch classes"],
    targets: Float[Array, "batch classes"],
    label_smoothing: float = 0.0,
) -> tuple[Float[Array, ""], Metrics]:
    """Mean cross-entropy in nats, and two accuracies.

    Args:
      logits: the model's.
      targets: a distribution for each image: its labels mixed, then smoothed.
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


def train_step(
    state: TrainState,
    batch: dict[str, Array],
    root_key: Key[Array, ""],
    lr_scale: Float[Array, ""],
    *,
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    augment: Callable,
    schedule: optax.Schedule,
    accumulate_steps: int = 1,
    ema_decay: float = 0.0,
    label_smoothing: float = 0.0,
    unroll: bool = False,
) -> tuple[TrainState, Metrics]:
    """One optimizer step.

    Args:
      batch: "images" uint8 [b, h, w, c], "labels" int32 [b], "indices" int32 [b] (in
        the training split) and "epochs" int32 [b] (number of the pass over it).
      root_key: the run's; this step's keys are folded out of it.
      lr_scale: multiplies the update; `optim.plateau_scale` decides it.
      accumulate_steps, unroll: see `mean_gradients`.
      label_smoothing: see `loss_and_metrics`.
      ema_decay: of the moving average per step; at step t it is at most
        (1 + t) / (10 + t), so that the average soon forgets the initial parameters.

    Returns:
      The next state and float32 scalars: those of `loss_and_metrics`, grad_norm
      (before clipping) and learning_rate.
    """
    step = state.step
    grads, batch_stats, metrics = mean_gradients(
        state,
        batch,
        root_key,
        model=model,
        augment=augment,
        accumulate_steps=accumulate_steps,
        label_smoothing=label_smoothing,
        unroll=unroll,
    )
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    updates = jax.tree.map(lambda u: u * lr_scale, updates)
    params = optax.apply_updates(state.params, updates)
    ema = state.ema
    if ema is not None:
        decay = jnp.minimum(ema_decay, (1.0 + step) / (10.0 + step))
        new = {"params": params, "batch_stats": batch_stats}
        ema = optax.incremental_update(new, ema, 1.0 - decay)
    metrics["grad_norm"] = optax.tree.norm(grads)
    metrics["learning_rate"] = jnp.float32(schedule(step)) * lr_scale
    return TrainState(step + 1, params, batch_stats, ema, opt_state), metrics


def train_steps(
    state: TrainState,
    split: tuple[UInt8[Array, "n h w c"], Int[Array, " n"]] | None,
    batches: dict[str, Array],
    root_key: Key[Array, ""],
    lr_scale: Float[Array, ""],
    *,
    train_step: Callable,
) -> tuple[TrainState, dict[str, Float[Array, " num_steps"]]]:
    """Several optimizer steps, one after another, as one program.

    Args:
      split: images and labels that "indices" point into; None where the batches hold
        their own.
      batches: as `train_step` takes them, or only "indices" and "epochs" with a
        split; each array has one axis more in front, the step.
      train_step: `train_step` with its keywords bound.

    Returns:
      The last state, and the metrics of each step.
    """

    def step(state, batch):
        if split is not None:
            batch = take_batch(*split, **batch)
        return train_step(state, batch, root_key, lr_scale)

    if len(batches["indices"]) > 1:
        return jax.lax.scan(step, state, batches)
    # No loop of one turn: see `mean_gradients` on convolutions in loops.
    state, metrics = step(state, jax.tree.map(lambda x: x[0], batches))
    return state, jax.tree.map(lambda x: x[None], metrics)


def mean_gradients(
    state: TrainState,
    batch: dict[str, Array],
    root_key: Key[Array, ""],
    *,
    model: nn.Module,
    augment: Callable,
    accumulate_steps: int,
    label_smoothing: float,
    unroll: bool,
) -> tuple[Any, Any, Metrics]:
    """Gradients, BatchNorm's next statistics, and `loss_and_metrics` of a batch.

    Args:
      batch, root_key, label_smoothing: see `train_step`.
      accumulate_steps: the augmented batch is computed in that many slices, one after
        another, and their gradients are averaged. BatchNorm sees the slices, and each
        has a dropout key of its own.
      unroll: write the slices out instead of looping. On CPU XLA (JAX 0.10) runs a
        convolution inside a loop some 40 times slower, even a loop of one turn.
    """

    def key_of(name, index):
        return jax.random.fold_in(rng.key_for(root_key, name, state.step), index)

    def add_slice(carry, inputs):
        batch_stats, *sums = carry
        part, index = inputs
        (_, (metrics, batch_stats)), grads = jax.value_and_grad(_loss, has_aux=True)(
            state.params,
            batch_stats,
            *part,
            key_of("dropout", index),
            model,
            label_smoothing,
        )
        return (batch_stats, *jax.tree.map(jnp.add, sums, [grads, metrics])), None

    augmented = augment(
        key_of("augment", 0),
        batch["images"],
        batch["labels"],
        step=state.step,
        epochs=batch["epochs"],
        indices=batch["indices"],
    )
    # Interleaved slices keep each device's share of the batch on that device.
    slices = jax.tree.map(
        lambda x: x.reshape(-1, accumulate_steps, *x.shape[1:]).swapaxes(0, 1),
        augmented,
    )
    zeros = dict.fromkeys(("loss", "accuracy", "weighted_accuracy"), jnp.zeros(()))
    carry = (state.batch_stats, jax.tree.map(jnp.zeros_like, state.params), zeros)
    if unroll or accumulate_steps == 1:
        for i in range(accumulate_steps):
            images, targets = jax.tree.map(lambda x, i=i: x[i], slices)
            if i:
                # Nothing else would make a slice wait for the one before, and all
                # activations be in memory at once. XLA drops optimization barriers on
                # a CPU, but cannot know that this is zero.
                zero = jnp.minimum(carry[-1]["accuracy"], 0)
                images += zero.astype(images.dtype)
            carry, _ = add_slice(carry, ((images, targets), i))
    else:
        indices = jnp.arange(accumulate_steps)
        carry, _ = jax.lax.scan(add_slice, carry, (slices, indices))
    batch_stats, *sums = carry
    grads, metrics = jax.tree.map(lambda x: x / accumulate_steps, sums)
    return grads, batch_stats, metrics


def _loss(params, batch_stats, images, targets, dropout_key, model, label_smoothing):
    """(loss, (metrics, BatchNorm's next statistics)) of augmented images."""
    logits, updates = model.apply(
        {"params": params, "batch_stats": batch_stats},
        images,
        train=True,
        rngs={"dropout": dropout_key},
        mutable=["batch_stats"],
    )
    loss, metrics = loss_and_metrics(logits, targets, label_smoothing)
    return loss, (metrics, updates.get("batch_stats", {}))


def take_batch(
    images: UInt8[Array, "n h w c"],
    labels: Int[Array, " n"],
    indices: Int[Array, " b"],
    epochs: Int[Array, " b"],
) -> dict[str, Array]:
    """The examples at `indices` of a split that lies on the device."""
    return {
        "images": images[indices],
        "labels": labels[indices],
        "indices": indices,
        "epochs": epochs,
    }


def eval_step(
    variables: dict[str, Any],
    images: UInt8[Array, "b h w c"],
    *,
    model: nn.Module,
    normalize: Callable,
) -> Float[Array, "b classes"]:
    """float32 logits of one batch, without augmentation or dropout."""
    return model.apply(variables, normalize(images), train=False)
