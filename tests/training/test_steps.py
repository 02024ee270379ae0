"""The train step alone: first metrics, randomness, accumulation, averages."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.training.made import RESNET, batch_of
from vit_jax.models import backend
from vit_jax.training import experiment, steps

_BUILT = {}


def one_step(config, splits, num_steps=1, lr_scale=1.0, seed=None):
    """(state, metrics) after `num_steps` on the same first batch."""
    name = config.to_json()
    if name not in _BUILT:
        built = experiment.make_experiment(config, splits)
        _BUILT[name] = built, jax.jit(built.train_step), built.init_state()
    built, step, state = _BUILT[name]
    batch = batch_of(built)
    key = built.root_key if seed is None else jax.random.key(seed)
    metrics = {}
    for _ in range(num_steps):
        state, metrics = step(state, batch, key, jnp.float32(lr_scale))
    return state, {name: float(value) for name, value in metrics.items()}


def assert_close(a, b, **tolerance):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **tolerance), a, b)


def largest_difference(a, b):
    differences = jax.tree.map(lambda x, y: float(jnp.abs(x - y).max()), a, b)
    return max(jax.tree.leaves(differences))


def test_golden_first_step(tiny_config, splits):
    # The norm of the gradient is the one before it is clipped.
    config = tiny_config(augment__crop="none", optim__clip_norm=0.01)
    _, metrics = one_step(config, splits)
    golden = {
        "loss": 2.305956,
        "accuracy": 0.125,
        "weighted_accuracy": 0.125,
        "grad_norm": 0.595127,
        "learning_rate": 0.0,
    }
    assert metrics == pytest.approx(golden, rel=1e-4), (
        "The first step's metrics moved. If initialisation, data order, augmentation "
        "or loss were changed on purpose, check that the change does what it should, "
        "say so in the commit, and put the new numbers here. Otherwise it is a bug."
    )


@pytest.mark.slow
def test_each_step_draws_anew(tiny_config, splits):
    """At a rate of zero only dropout can change the loss from step to step."""
    losses = [
        one_step(
            tiny_config(augment__crop="none", model__dropout=rate), splits, n, 0.0
        )[1]["loss"]
        for n, rate in ((1, 0.5), (2, 0.5), (1, 0.0), (2, 0.0))
    ]
    assert losses[0] != losses[1]
    assert losses[2] == losses[3]


@pytest.mark.slow
def test_accumulation_gives_the_gradient_of_the_whole_batch(tiny_config, splits):
    # Each image is mixed with one of the whole batch, and by the same draw.
    mixed = functools.partial(
        tiny_config, augment__mixup_alpha=0.8, optim__clip_norm=1.0
    )
    whole, metrics = one_step(mixed(), splits, num_steps=2)
    split, split_metrics = one_step(
        mixed(optim__num_microbatches=2), splits, num_steps=2
    )
    assert split_metrics == pytest.approx(metrics, rel=1e-4)
    assert_close(whole.params, split.params, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_small_gradients_survive_float16(tiny_config, splits):
    """The last steps of a training have gradients a thousand times as small."""
    found = {}
    for dtype in ("float32", "float16"):
        config = tiny_config(model__dtype=dtype, model__dropout=0.0)
        built = experiment.make_experiment(config, splits)
        state, batch = built.init_state(), batch_of(built)
        bound = built.train_step.keywords
        images = batch["images"].astype(jnp.float32) / 255
        targets = jax.nn.one_hot(batch["labels"], 10)

        def objective(*inputs, exact=bound["objective"]):
            loss, others = exact(*inputs)
            return loss * 2.0**-13, others

        for scale in (1.0, bound["loss_scale"]):
            gradients = functools.partial(
                steps.mean_gradients, objective=objective, trained=None,
                num_microbatches=1, loss_scale=scale,
            )  # fmt: skip
            inputs = state, images, targets, built.root_key, None
            found[dtype, scale > 1] = jax.jit(gradients)(*inputs)[0]

    exact = found["float32", False]

    def error(is_scaled):
        difference = jax.tree.map(jnp.subtract, found["float16", is_scaled], exact)
        return optax.tree.norm(difference) / optax.tree.norm(exact)

    assert error(True) < 0.01
    assert error(False) > 0.1


@pytest.mark.slow
def test_microbatches_in_a_loop_are_microbatches_written_out(
    tiny_config, splits, monkeypatch
):
    """An accelerator loops over microbatches; for a CPU they are written out."""
    config = tiny_config(optim__num_microbatches=2, model__dropout=0.1)
    built = experiment.make_experiment(config, splits)
    state, batch = built.init_state(), batch_of(built)
    found = []
    for unrolls in (False, True):
        monkeypatch.setattr(backend, "unrolls_loops", lambda unrolls=unrolls: unrolls)
        # A new function, since JAX keeps what it traced of an old one.
        step = jax.jit(functools.partial(built.train_step))
        found.append(step(state, batch, built.root_key, jnp.float32(1)))
    looped, unrolled = found
    assert_close(looped[1], unrolled[1], rtol=1e-5)
    assert_close(looped[0].opt_state, unrolled[0].opt_state, rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_only_one_microbatch_is_in_memory_at_a_time(tiny_config, splits):
    def scratch_bytes(num_microbatches):
        config = tiny_config(batch_size=512, optim__num_microbatches=num_microbatches)
        built = experiment.make_experiment(config, splits)
        batch = batch_of(built)
        state, key = built.state_shapes, built.root_key
        lowered = backend.jit(built.train_step).lower(state, batch, key, jnp.float32(1))
        return lowered.compile().memory_analysis().temp_size_in_bytes

    assert scratch_bytes(4) < 0.5 * scratch_bytes(1)


@pytest.mark.slow
def test_ema_follows_the_parameters(tiny_config, splits):
    config = tiny_config(optim__ema_decay=0.9, schedule__warmup="0 steps")
    start, _ = one_step(config, splits, num_steps=0)
    assert_close(start.ema["params"], start.params, rtol=1e-6)
    first, _ = one_step(config, splits, num_steps=1)
    # At step 0 the decay is at most (1 + 0) / (10 + 0).
    expected = jax.tree.map(lambda a, b: 0.1 * a + 0.9 * b, start.params, first.params)
    assert_close(first.ema["params"], expected, rtol=1e-5, atol=1e-7)
    assert first.variables is first.ema
    without, _ = one_step(tiny_config(), splits, num_steps=0)
    assert without.ema is None
    assert without.variables["params"] is without.params


def test_what_is_no_fraction_is_not_averaged():
    """A model of one's own may count in its running statistics."""
    old = {"count": jnp.int32(3), "mean": jnp.float32(1)}
    new = {"count": jnp.int32(5), "mean": jnp.float32(2)}
    means = steps.next_averages(old, new, jnp.int32(1000), 0.75)
    assert means["count"].dtype == jnp.int32
    assert jax.device_get(means) == {"count": 5, "mean": 1.25}


@pytest.mark.slow
def test_lr_scale_scales_the_update_exactly(tiny_config, splits):
    config = tiny_config(schedule__warmup="0 steps")
    start, _ = one_step(config, splits, num_steps=0)
    full, metrics = one_step(config, splits)
    half, half_metrics = one_step(config, splits, lr_scale=0.5)
    middle = jax.tree.map(lambda a, b: (a + b) / 2, start.params, full.params)
    assert_close(half.params, middle, rtol=1e-5, atol=1e-7)
    assert half_metrics["learning_rate"] == metrics["learning_rate"] / 2


@pytest.mark.slow
def test_batchnorm_statistics_are_updated(tiny_config, splits):
    config = tiny_config(**RESNET, optim__ema_decay=0.9)
    start, _ = one_step(config, splits, num_steps=0)
    after, metrics = one_step(config, splits)
    assert largest_difference(start.batch_stats, after.batch_stats) > 0
    # Evaluation averages them as it does the parameters.
    expected = jax.tree.map(
        lambda a, b: 0.1 * a + 0.9 * b, start.batch_stats, after.batch_stats
    )
    assert_close(after.variables["batch_stats"], expected, rtol=1e-4, atol=1e-6)
    assert np.isfinite(metrics["loss"])
