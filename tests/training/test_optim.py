"""Schedules at their corners, masks and optimizers."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from vit_jax import models
from vit_jax.config import make_config
from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.training import optim


def schedule_of(total_steps=110, steps_per_epoch=10.0, **settings):
    """A schedule with a peak of 0.5."""
    config = make_config({"schedule": settings}).schedule
    lengths = {"total_steps": total_steps, "steps_per_epoch": steps_per_epoch}
    return optim.make_schedule(config, peak=0.5, **lengths)


@pytest.mark.parametrize(
    "name, floor, corners",
    [
        ("warmup_cosine", 0.0, {0: 0, 5: 0.25, 10: 0.5, 60: 0.25, 110: 0}),
        ("warmup_cosine", 0.1, {0: 0, 10: 0.5, 60: 0.275, 110: 0.05, 200: 0.05}),
        ("linear", 0.0, {0: 0, 5: 0.25, 10: 0.5, 60: 0.25, 85: 0.125, 110: 0}),
        ("linear", 0.2, {10: 0.5, 60: 0.3, 110: 0.1}),
        ("constant", 0.0, {0: 0, 5: 0.25, 10: 0.5, 60: 0.5, 110: 0.5}),
        ("plateau", 0.0, {0: 0, 10: 0.5, 110: 0.5}),
    ],
)
def test_schedules_at_their_corners(name, floor, corners):
    schedule = schedule_of(name=name, floor=floor, warmup="10 steps")
    for step, rate in corners.items():
        assert float(schedule(step)) == pytest.approx(rate, abs=1e-7), step


@pytest.mark.parametrize("name", ["warmup_cosine", "linear", "constant", "plateau"])
def test_without_warmup_a_schedule_starts_at_its_peak(name):
    assert float(schedule_of(name=name, warmup="0 steps")(0)) == 0.5


def test_warmup_may_be_all_of_the_training_but_not_longer():
    assert float(schedule_of(warmup="110 steps")(110)) == 0.5
    with pytest.raises(UserError, match="120 steps"):
        schedule_of(warmup="12 epochs")


@pytest.fixture(scope="module")
def vit_params():
    config = make_config(
        {
            "model": {
                "width": 8, "depth": 1, "num_heads": 2, "patch_size": 4,
                "num_registers": 2, "layer_scale": 0.1, "qk_norm": True,
            }
        }
    )  # fmt: skip
    shape = (8, 8, 3)
    model = models.make_model(
        config.model, num_classes=10, image_shape=shape, dtype=jnp.float32
    )
    return models.init_variables(model, jax.random.key(0), shape)["params"]


def names_where(tree):
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(p, simple=True, separator="/") for p, x in leaves if x}


def test_only_weight_matrices_decay(vit_params):
    decayed = names_where(optim.decay_mask(vit_params))
    assert decayed == {"stem/projection/kernel", "head/kernel"} | {
        f"block0/{name}/kernel"
        for name in ("attention/qkv", "attention/out", "mlp/hidden", "mlp/out")
    }


def updates_for(params, grads, **settings):
    config = make_config({"optim": settings})
    optimizer = optim.make_optimizer(config.optim, optax.constant_schedule(0.1), 0)

    @jax.jit
    def update(params, grads):
        return optimizer.update(grads, optimizer.init(params), params)[0]

    return update(params, grads)


def test_muon_without_a_matrix_says_what_to_set():
    head = {"head": {"kernel": jnp.ones((2, 3)), "bias": jnp.ones(3)}}
    with pytest.raises(UserError, match=r"config\.stages\.0\.optim\.name"):
        updates_for(head, head, name="muon")
    conv = {"conv": {"kernel": jnp.ones((3, 3, 2, 4))}} | head
    with pytest.raises(UserError, match=r"config\.optim\.muon_convolutions"):
        updates_for(conv, conv, name="muon")
    updates_for(conv, conv, name="muon", muon_convolutions=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adamw", "sgd", "muon"])
@pytest.mark.parametrize("decay_all", [False, True])
def test_decay_reaches_whom_it_should(vit_params, name, decay_all):
    """Without gradients only the decay changes a parameter."""
    ones = jax.tree.map(jnp.ones_like, vit_params)
    zeros = jax.tree.map(jnp.zeros_like, vit_params)
    settings = {
        "weight_decay": 0.5,
        "decay_all": decay_all,
        "learning_rate": 0.1,
        "muon_learning_rate": 0.1,
    }
    updates = updates_for(ones, zeros, name=name, **settings)
    mask = jax.tree.map(lambda m: m or decay_all, optim.decay_mask(vit_params))
    expected = jax.tree.map(lambda p, m: -0.05 * p * m, ones, mask)
    jax.tree.map(
        lambda u, e: np.testing.assert_allclose(u, e, rtol=1e-5), updates, expected
    )


def test_first_updates_by_hand():
    params = {"head": {"kernel": jnp.array([[2.0]])}}
    grads = {"head": {"kernel": jnp.array([[3.0]])}}

    def first(**settings):
        return float(updates_for(params, grads, **settings)["head"]["kernel"][0, 0])

    # Adam's first step is the learning rate in the gradient's direction.
    assert first(name="adam", weight_decay=0.0) == pytest.approx(-0.1, rel=1e-5)
    assert first(name="adamw", weight_decay=0.5) == pytest.approx(
        -0.1 * (1 + 0.5 * 2), rel=1e-5
    )
    # SGD's decay joins the gradient; Nesterov looks one momentum step ahead.
    assert first(name="sgd", weight_decay=0.5) == pytest.approx(-0.1 * (3 + 0.5 * 2))
    assert first(
        name="sgd", weight_decay=0.0, momentum=0.9, nesterov=True
    ) == pytest.approx(-0.1 * 3 * 1.9)
    # Gradients are clipped before anything else.
    assert first(name="sgd", weight_decay=0.0, clip_norm=1.0) == pytest.approx(-0.1)


def test_a_run_may_go_on_with_clipping_and_other_rates_of_layers(vit_params):
    """The names in a checkpoint are those of the optimizer alone."""

    def state(**changes):
        config = make_config({"optim": {"name": "muon", **changes}})
        optimizer = optim.make_optimizer(config.optim, optax.constant_schedule(0.1), 1)
        return jax.tree.structure(optimizer.init(vit_params))

    assert state() == state(clip_norm=1.0, layer_decay=0.8)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize("max_norm", [0.5, 1e4])
def test_clipping_is_that_of_optax(platform, max_norm):
    rng = np.random.default_rng(0)
    shapes = [(3, 4), (4,), (3, 4), (), (4,)]
    grads = [jnp.float32(rng.normal(size=shape)) for shape in shapes]
    wanted, _ = optax.clip_by_global_norm(max_norm).update(grads, optax.EmptyState())
    with backend.computing_for(platform):
        norm = optim.global_norm(grads)
        ours = optim.clip_by_global_norm(grads, max_norm)
    together = np.concatenate([np.ravel(grad) for grad in grads])
    assert norm == pytest.approx(np.linalg.norm(together), rel=1e-6)
    for one, other in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("convolutions", [False, True])
def test_muon_makes_updates_orthogonal(vit_params, convolutions):
    keys = jax.random.split(jax.random.key(0), 100)
    leaves, tree = jax.tree.flatten(vit_params)
    grads = tree.unflatten(
        [jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=False)]
    )
    updates = updates_for(
        vit_params, grads, name="muon", weight_decay=0.0, muon_learning_rate=1.0,
        learning_rate=0.1, muon_convolutions=convolutions,
    )  # fmt: skip
    hidden = updates["block0"]["mlp"]["hidden"]["kernel"]
    qkv = updates["block0"]["attention"]["qkv"]["kernel"]
    out = updates["block0"]["attention"]["out"]["kernel"].reshape(8, 8)
    # Newton-Schulz brings singular values near 1; those of the gradients spread over a
    # factor of ten and more. A matrix that widens is scaled by the root of its ratio.
    matrices = [hidden / 2, out, *jnp.moveaxis(qkv, 1, 0).reshape(3, 8, 8)]
    projection = updates["stem"]["projection"]["kernel"].reshape(-1, 8)
    if convolutions:
        matrices.append(projection)
    for matrix in matrices:
        values = np.linalg.svd(np.asarray(matrix), compute_uv=False)
        assert values.min() > 0.2 and values.max() < 1.3
        assert np.median(values) > 0.65
    # AdamW updates all others: its first step has the size of the learning rate.
    others = [updates["head"]["kernel"], *([] if convolutions else [projection])]
    for update in others:
        np.testing.assert_allclose(np.abs(update), 0.1, rtol=1e-4)


def test_a_cosine_stepped_once_an_epoch_is_pytorchs():
    """CosineAnnealingLR(T_max=10): in epoch e, (1 + cos(pi e / 10)) / 2 of the peak."""
    settings = {"name": "warmup_cosine", "warmup": 0, "update_every": "epoch"}
    schedule = schedule_of(25, 2.5, **settings)
    rates = [float(schedule(step)) for step in range(25)]
    starts = [0, 3, 5, 8, 10, 13, 15, 18, 20, 23, 25]  # The first step of each epoch.
    for start, end in itertools.pairwise(starts):
        expected = 0.25 * (1 + math.cos(math.pi * start / 25))
        np.testing.assert_allclose(rates[start:end], expected, rtol=1e-5)
    even = schedule_of(40, 4, **settings)
    expected = [0.25 * (1 + math.cos(math.pi * (n // 4) / 10)) for n in range(40)]
    np.testing.assert_allclose([float(even(n)) for n in range(40)], expected, rtol=1e-5)


@pytest.mark.parametrize("steps_per_epoch", [41, 47, 61, 390.625])
def test_a_compiled_rate_changes_with_the_first_step_of_an_epoch(steps_per_epoch):
    total_steps = 100 * math.ceil(steps_per_epoch)
    schedule = schedule_of(total_steps, steps_per_epoch, warmup=0, update_every="epoch")
    starts = np.ceil(np.arange(1, 100) * steps_per_epoch).astype(np.int32)
    rates = jax.jit(jax.vmap(schedule))
    assert (rates(starts) < rates(starts - 1)).all()
    np.testing.assert_array_equal(rates(starts[1:] - 1), rates(starts[:-1]))


def test_milestones():
    milestones = {"milestone_epochs": (4, 8), "milestone_scales": (0.5, 0.1)}
    schedule = schedule_of(25, 2.5, name="milestones", warmup=0, **milestones)
    rates = [float(schedule(step)) for step in (0, 9, 10, 19, 20, 24)]
    np.testing.assert_allclose(rates, [0.5, 0.5, 0.25, 0.25, 0.05, 0.05], rtol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"milestone_epochs": (1, 2), "milestone_scales": (0.5,)},
        {"milestone_epochs": (2, 1), "milestone_scales": (0.5, 0.1)},
    ],
)
def test_milestones_that_do_not_fit_are_refused(settings):
    with pytest.raises(UserError, match="milestone_epochs is"):
        schedule_of(name="milestones", warmup=0, **settings)


def test_gradients_of_one_shape_are_stored_in_one_array_on_a_gpu():
    grads = {"a": jnp.arange(3.0), "b": jnp.ones((2, 3)), "c": 2 * jnp.arange(3.0)}
    for platform, num_arrays in (("cpu", 0), ("gpu", 2)):
        with backend.computing_for(platform):
            stored = optim.stored_by_shape(grads)
            traced = str(jax.make_jaxpr(lambda g: optim.stored_by_shape(g))(grads))
        jax.tree.map(np.testing.assert_array_equal, stored, grads)
        assert traced.count("optimization_barrier") == num_arrays
