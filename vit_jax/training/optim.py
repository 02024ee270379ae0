"""Learning-rate schedules, optimizers, and which parameters are decayed."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float
from optax.contrib import MuonDimensionNumbers

from vit_jax.config.durations import to_steps
from vit_jax.errors import UserError, show
from vit_jax.models import backend
from vit_jax.training.muon import groups_of, scale_by_muon
from vit_jax.training.trainable import scale_by_layer


def make_schedule(
    config_schedule: Any, *, peak: float, total_steps: int, steps_per_epoch: float
) -> optax.Schedule:
    """The learning rate as a function of the number of optimizer steps done.

    Every schedule rises linearly from 0 at step 0 to `peak` at the end of the warm-up;
    without warm-up it starts at `peak`. Then, up to `total_steps`:

    - warmup_cosine: half a cosine (Loshchilov & Hutter 2017, eq. 5, without restarts)
      down to `floor * peak`;
    - linear: a straight line down to `floor * peak`;
    - constant and plateau: `peak`; for a plateau `History.lr_scale` gives a factor;
    - milestones: after each of `milestone_epochs`, the peak times its scale.

    With `update_every` "epoch", all steps of an epoch have the rate of its first step,
    as with a PyTorch scheduler that is called once per epoch.

    Raises:
      UserError: the warm-up is longer than the training, the milestones are not in
        order, or their number differs from that of their scales.
    """
    warmup_steps = to_steps(
        config_schedule.warmup, steps_per_epoch=steps_per_epoch, total_steps=total_steps
    )
    if warmup_steps > total_steps:
        raise UserError(
            f"config.schedule.warmup is {show(config_schedule.warmup)}, which is "
            f"{warmup_steps} steps, but the whole training has {total_steps}; shorten "
            "the warm-up, as --config.schedule.warmup=10% does, or train longer."
        )
    decay_steps, floor = total_steps - warmup_steps, config_schedule.floor
    if config_schedule.name == "milestones":
        rest = _milestones(config_schedule, peak, steps_per_epoch, warmup_steps)
    elif config_schedule.name in ("constant", "plateau") or decay_steps == 0:
        rest = optax.constant_schedule(peak)
    elif config_schedule.name == "warmup_cosine":
        rest = optax.cosine_decay_schedule(peak, decay_steps, alpha=floor)
    else:
        rest = optax.linear_schedule(peak, floor * peak, decay_steps)
    schedule = rest
    if warmup_steps:
        warmup = optax.linear_schedule(0.0, peak, warmup_steps)
        schedule = optax.join_schedules([warmup, rest], [warmup_steps])
    if config_schedule.update_every == "step":
        return schedule

    def rate_of_epoch(step):
        epoch = jnp.floor(step / steps_per_epoch)
        # XLA multiplies by 1 / steps_per_epoch, which at the start of an epoch may end
        # just below the whole number.
        epoch += (epoch + 1) * steps_per_epoch <= step
        return schedule(jnp.floor(epoch * steps_per_epoch + 0.5))

    return rate_of_epoch


def _milestones(
    config_schedule: Any, peak: float, steps_per_epoch: float, warmup_steps: int
) -> optax.Schedule:
    epochs = config_schedule.milestone_epochs or ()
    scales = config_schedule.milestone_scales or ()
    if not epochs or len(epochs) != len(scales) or list(epochs) != sorted(set(epochs)):
        raise UserError(
            f"config.schedule.milestone_epochs is {epochs} and milestone_scales is "
            f"{scales}, but as many scales as epochs were expected, at least one, and "
            "the epochs in ascending order."
        )
    boundaries = [
        to_steps(epoch, steps_per_epoch=steps_per_epoch) - warmup_steps
        for epoch in epochs
    ]
    rates = [optax.constant_schedule(peak * scale) for scale in (1.0, *scales)]
    return optax.join_schedules(rates, boundaries)


def decay_mask(params: Any) -> Any:
    """True for weight matrices and convolutions, False for all other parameters.

    Biases, norm scales, class tokens, registers and position embeddings are excluded,
    because decaying them does not regularise the function. By this package's convention
    the decayed leaves are exactly those named "kernel".
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, _: path[-1].key == "kernel", params
    )


def muon_dimensions(params: Any, convolutions: bool = False) -> Any:
    """For each leaf, the axes of its matrix for Muon, or None for AdamW.

    Muon (Jordan 2024) updates the matrices inside a ViT's blocks: query, key and value
    each by itself, attention's output, and both of the MLP. With `convolutions` it also
    updates the kernel of every convolution, [height, width, in, out], as a matrix of
    height * width * in rows and `out` columns; a patch embedding is a convolution, too.
    AdamW updates the head and everything that is not a kernel.
    """

    def axes(path, leaf):
        names = [entry.key for entry in path]
        if names[-1] != "kernel":
            return None
        is_qkv = names[-2] == "qkv"
        if convolutions and leaf.ndim == 4 and not is_qkv:
            return MuonDimensionNumbers((0, 1, 2), (3,))
        if not names[0].startswith("block"):
            return None
        if is_qkv:  # [width, 3, heads, head width]
            return MuonDimensionNumbers((0,), (2, 3))
        if leaf.ndim == 3:  # attention's output, [heads, head width, width]
            return MuonDimensionNumbers((0, 1), (2,))
        return MuonDimensionNumbers((0,), (1,)) if leaf.ndim == 2 else None

    return jax.tree_util.tree_map_with_path(axes, params)


def _muon_labels(params: Any, dimensions: Any) -> Any:
    if not jax.tree.leaves(dimensions):
        raise UserError(
            "config.optim.name is muon, which is for the matrices in a ViT's blocks "
            "and, with config.optim.muon_convolutions, for convolutions, but none of "
            "them is trained; use adamw or sgd (for a stage of the head alone set "
            "config.stages.0.optim.name, with that stage's number)."
        )
    return jax.tree.map(
        lambda _, axes: "adamw" if axes is None else "muon", params, dimensions
    )


def stored_by_shape(grads: Any) -> Any:
    """The same gradients, those of one shape stored in one array.

    It does this where `backend.groups_leaves`. XLA computes in one kernel what reads
    the same array, so that the leaves of a ViT's blocks are then updated together and
    not each by a kernel of its own.
    """
    if not backend.groups_leaves():
        return grads
    leaves, tree = jax.tree.flatten(grads)
    for group in groups_of(leaf.shape for leaf in leaves):
        stack = jax.lax.optimization_barrier(jnp.stack([leaves[i] for i in group]))
        for index, leaf in zip(group, stack, strict=True):
            leaves[index] = leaf
    return tree.unflatten(leaves)


def global_norm(grads: Any) -> Float[Array, ""]:
    """The L2 norm of all gradients together.

    Where `backend.groups_leaves`, the squares of leaves of one shape, such as those of
    a ViT's blocks, are summed together.
    """
    leaves = jax.tree.leaves(grads)
    if backend.groups_leaves():
        groups = groups_of(leaf.shape for leaf in leaves)
        leaves = [jnp.stack([leaves[i] for i in group]) for group in groups]
    return optax.tree.norm(leaves)


def clip_by_global_norm(grads: Any, max_norm: float) -> Any:
    """What `optax.clip_by_global_norm` makes of gradients, with our `global_norm`.

    A step computes that norm anyway, and XLA computes it once.
    """
    norm = global_norm(grads)
    return jax.tree.map(
        lambda grad: jnp.where(norm < max_norm, grad, grad / norm * max_norm), grads
    )


def make_optimizer(
    config_optim: Any, schedule: optax.Schedule, depth: int
) -> optax.GradientTransformation:
    """Gradient clipping by global norm, then the optimizer with its weight decay, then
    the factor of each layer, see `trainable.scale_by_layer`, where the model has
    `depth` blocks.

    The weight decay of adamw and muon is decoupled (Loshchilov & Hutter 2019): each
    step subtracts learning rate * `weight_decay` * parameter. sgd adds
    `weight_decay` * parameter to the gradient, as its usual recipes do.
    """
    c = config_optim
    mask = None if c.decay_all else decay_mask
    adamw = optax.adamw(
        schedule, c.b1, c.b2, c.eps, weight_decay=c.weight_decay, mask=mask
    )
    if c.name == "adamw":
        core = adamw
    elif c.name == "adam":
        core = optax.adam(schedule, c.b1, c.b2, c.eps)
    elif c.name == "sgd":
        core = optax.chain(
            optax.add_decayed_weights(c.weight_decay, mask),
            optax.sgd(schedule, momentum=c.momentum, nesterov=c.nesterov),
        )
    else:
        ratio = c.muon_learning_rate / c.learning_rate
        dimensions = functools.partial(
            muon_dimensions, convolutions=c.muon_convolutions
        )
        # Not optax's muon as a whole, whose AdamW also decays biases and norms.
        muon = optax.chain(
            scale_by_muon(dimensions, beta=c.momentum, nesterov=c.nesterov),
            optax.add_decayed_weights(c.weight_decay),
            optax.scale_by_learning_rate(lambda step: ratio * schedule(step)),
        )
        core = optax.partition(
            {"muon": muon, "adamw": adamw},
            lambda params: _muon_labels(params, dimensions(params)),
        )

    def update(grads, state, params):
        if c.clip_norm:
            grads = clip_by_global_norm(grads, c.clip_norm)
        updates, state = core.update(grads, state, params)
        if c.layer_decay != 1:
            updates = scale_by_layer(updates, c.layer_decay, depth)
        return updates, state

    # The state is that of the optimizer alone, whether there is clipping or not, so a
    # run that diverged can go on with it.
    return optax.GradientTransformation(core.init, update)
