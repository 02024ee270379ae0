"""One step of training: pure functions without `jax.jit`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, Key, UInt8

from vit_jax.models import backend
from vit_jax.training import optim, trainable
from vit_jax.training.objectives import Metrics, Objective
from vit_jax.training.train_state import TrainState, key_for


def train_step(
    state: TrainState,
    batch: dict[str, Array],
    root_key: Key[Array, ""],
    lr_scale: Float[Array, ""],
    teacher: Any = None,
    *,
    objective: Objective,
    optimizer: optax.GradientTransformation,
    augment: Callable,
    schedule: optax.Schedule,
    trained: frozenset[str] | None = None,
    num_microbatches: int = 1,
    loss_scale: float = 1.0,
    ema_decay: float = 0.0,
) -> tuple[TrainState, Metrics]:
    """One optimizer step.

    Args:
      batch: "images" uint8 [b, h, w, c], "labels" int32 [b], "indices" int32 [b] (in
        the training split) and "epochs" int32 [b] (number of the pass over it).
      root_key: the run's key, from which this step's keys are derived.
      lr_scale: factor of the update, see `History.lr_scale`.
      objective, teacher: what is minimised, and its variables, see `objectives`.
      trained: names of the parameters that are trained, see `trainable`; None: all.
        The others stay the same bits, and so do the statistics of their BatchNorms if
        these are `models.norms.BatchNorm`.
      num_microbatches, loss_scale: see `mean_gradients`.
      ema_decay: of the moving averages, see `next_averages`.

    Returns:
      The next state and float32 scalars: those of the objective, grad_norm
      (before clipping) and learning_rate.
    """
    step = state.step
    with jax.named_scope("augment"):
        images, targets = augment(
            # The whole batch is augmented with the key of its first microbatch.
            jax.random.fold_in(key_for(root_key, "augment", step), 0),
            batch["images"],
            batch["labels"],
            step=step,
            epochs=batch["epochs"],
            indices=batch["indices"],
            run_key=root_key,
        )
    grads, batch_stats, metrics = mean_gradients(
        state,
        images,
        targets,
        root_key,
        teacher,
        objective=objective,
        trained=trained,
        num_microbatches=num_microbatches,
        loss_scale=loss_scale,
    )
    params, frozen = trainable.split(state.params, trained)
    with jax.named_scope("optimizer"):
        grads = optim.stored_by_shape(grads)
        updates, opt_state = optimizer.update(grads, state.opt_state, params)
        updates = jax.tree.map(lambda u: u * lr_scale, updates)
        params = trainable.merge(optax.apply_updates(params, updates), frozen)
        metrics["grad_norm"] = optim.global_norm(grads)
        if (ema := state.ema) is not None:
            new = {"params": params, "batch_stats": batch_stats}
            ema = next_averages(ema, new, step, ema_decay)
    metrics["learning_rate"] = jnp.float32(schedule(step)) * lr_scale
    return TrainState(step + 1, params, batch_stats, ema, opt_state), metrics


def next_averages(ema: Any, new: Any, step: Int[Array, ""], ema_decay: float) -> Any:
    """The moving averages `ema` with `new` counted in, after `step` steps.

    In the first steps the decay is at most (1 + step) / (10 + step), so that the
    initial values are soon forgotten.
    """
    decay = jnp.minimum(ema_decay, (1.0 + step) / (10.0 + step))
    means = optax.incremental_update(new, ema, 1.0 - decay)

    def choose(mean, new, old):
        if not jnp.issubdtype(new.dtype, jnp.floating):
            return new  # such as a counter among a model's own running statistics
        # The mean of two equal numbers may round to another one, and a frozen parameter
        # must keep its bits.
        return jnp.where(new == old, old, mean)

    return jax.tree.map(choose, means, new, ema)


def train_steps(
    state: TrainState,
    split: tuple[UInt8[Array, "n h w c"], Int[Array, " n"]] | None,
    batches: dict[str, Array],
    root_key: Key[Array, ""],
    lr_scale: Float[Array, ""],
    teacher: Any = None,
    *,
    train_step: Callable,
) -> tuple[TrainState, dict[str, Float[Array, " num_steps"]]]:
    """Several optimizer steps, one after another, as one program.

    Args:
      split: images and labels that "indices" refer to; None where the batches hold
        images and labels themselves.
      batches: the arrays that `train_step` takes, or only "indices" and "epochs" where
        there is a split; each has an additional first axis, the step. "is_step" says
        which steps count; the others, at the end, do not change the state. So one
        program serves dispatches of every length.
      train_step: `train_step` with its keyword arguments bound.

    Returns:
      The last state, and the metrics of each step.
    """
    batches = dict(batches)
    is_step = batches.pop("is_step")

    def step(state, batch):
        if split is not None:
            batch = take_batch(*split, **batch)
        return train_step(state, batch, root_key, lr_scale, teacher)

    def step_if_it_counts(state, inputs):
        batch, counts = inputs
        new, metrics = step(state, batch)
        new = backend.stored(new)
        with jax.named_scope("optimizer"):
            new = jax.tree.map(lambda new, old: jnp.where(counts, new, old), new, state)
        return new, metrics

    if len(is_step) > 1:
        return jax.lax.scan(step_if_it_counts, state, (batches, is_step))
    # Not a loop of one iteration: see `backend.unrolls_loops`.
    state, metrics = step(state, jax.tree.map(lambda x: x[0], batches))
    return state, jax.tree.map(lambda x: x[None], metrics)


def mean_gradients(
    state: TrainState,
    images: Float[Array, "b h w c"],
    targets: Float[Array, "b classes"],
    root_key: Key[Array, ""],
    teacher: Any,
    *,
    objective: Objective,
    trained: frozenset[str] | None,
    num_microbatches: int,
    loss_scale: float,
) -> tuple[Any, Any, Metrics]:
    """Gradients, BatchNorm's next statistics, and the objective's metrics of a batch.

    The gradients are those of the trained parameters. Nothing is propagated back
    through layers before the first of these.

    Args:
      images, targets: of the whole batch, augmented.
      num_microbatches: the batch is computed in this many parts, one after another,
        whose gradients are averaged. BatchNorm normalises each part by itself, and each
        has a dropout key of its own.
      loss_scale: a power of two, by which the loss is multiplied and the gradients of
        the parameters are divided again, see `loss_scale_of`.
    """
    params, frozen = trainable.split(state.params, trained)
    norms = trainable.frozen_norms(state.batch_stats, params, frozen)

    def loss(params, batch_stats, *inputs):
        params = trainable.merge(params, frozen)
        variables = {"params": params, "batch_stats": batch_stats, "frozen": norms}
        value, others = objective(variables, *inputs, teacher)
        return loss_scale * value, others

    def add_microbatch(carry, inputs):
        batch_stats, *sums = carry
        part, index = inputs
        step_key = key_for(root_key, "dropout", state.step)
        dropout_key = jax.random.fold_in(step_key, index)
        (_, (metrics, batch_stats)), grads = jax.value_and_grad(loss, has_aux=True)(
            params, batch_stats, *part, dropout_key
        )
        return (batch_stats, *jax.tree.map(jnp.add, sums, [grads, metrics])), None

    # Microbatches take every n-th image, so that each device keeps its own images.
    microbatches = jax.tree.map(
        lambda x: x.reshape(-1, num_microbatches, *x.shape[1:]).swapaxes(0, 1),
        (images, targets),
    )
    first = jax.tree.map(lambda x: x[0], microbatches)
    shapes = jax.eval_shape(loss, params, state.batch_stats, *first, root_key)[1][0]
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    carry = (state.batch_stats, jax.tree.map(jnp.zeros_like, params), zeros)
    if backend.unrolls_loops() or num_microbatches == 1:
        for i in range(num_microbatches):
            images, targets = jax.tree.map(lambda x, i=i: x[i], microbatches)
            if i:
                # Without this dependence XLA would be free to compute microbatches at
                # the same time, with all their activations in memory.
                images, done = jax.lax.optimization_barrier((images, carry[-1]))
                carry = (*carry[:-1], done)
            carry, _ = add_microbatch(carry, ((images, targets), i))
    else:
        indices = jnp.arange(num_microbatches)
        carry, _ = jax.lax.scan(add_microbatch, carry, (microbatches, indices))
    batch_stats, *sums = carry
    grads, metrics = jax.tree.map(lambda x: x / num_microbatches, sums)
    grads = jax.tree.map(lambda x: x / loss_scale, grads)
    return grads, batch_stats, metrics


def loss_scale_of(dtype: DTypeLike) -> float:
    """The `loss_scale` of `mean_gradients` for a model that computes in `dtype`.

    float16 rounds numbers below 6e-5 coarsely and those below 3e-8 to zero, which many
    gradients of activations are (Micikevicius et al., 2018, "Mixed Precision Training",
    section 3.2). Its largest number is 65,504, which leaves room for a gradient of 256.
    """
    return 256.0 if jnp.dtype(dtype) == jnp.float16 else 1.0


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
