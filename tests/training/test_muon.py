"""Muon's direction is optax's, however many matrices are multiplied at once."""

import functools

import jax
import numpy as np
import optax
import pytest

from vit_jax.models import backend
from vit_jax.training import muon, optim

SHAPES = {
    f"block{block}": {
        "attention": {
            "qkv": {"kernel": (8, 3, 2, 4)},
            "out": {"kernel": (2, 4, 8)},
        },
        "mlp": {"hidden": {"kernel": (8, 16)}, "out": {"kernel": (16, 8)}},
    }
    for block in range(2)
}
for layer in range(2):
    SHAPES[f"conv{layer}"] = {"kernel": (3, 3, 4, 6)}
muon_dimensions = functools.partial(optim.muon_dimensions, convolutions=True)


def random_tree(seed):
    shapes, tree = jax.tree.flatten(SHAPES, is_leaf=lambda x: isinstance(x, tuple))
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    leaves = [jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)]
    return tree.unflatten(leaves)


def directions(optimizer, num_steps=3):
    state = optimizer.init(random_tree(0))
    for step in range(num_steps):
        updates, state = optimizer.update(random_tree(step), state, random_tree(0))
    return updates, state


@pytest.mark.slow
@pytest.mark.parametrize(("platform", "nesterov"), [("cpu", True), ("gpu", False)])
def test_the_direction_is_that_of_optax(platform, nesterov, monkeypatch):
    monkeypatch.setattr(backend, "auto_dtype", lambda: "float32")
    settings = {"beta": 0.9, "nesterov": nesterov}
    with backend.computing_for(platform):
        updates, state = directions(muon.scale_by_muon(muon_dimensions, **settings))
    whole = optax.contrib.muon(
        -1.0, muon_weight_dimension_numbers=muon_dimensions, **settings
    )
    expected, state_of_optax = directions(whole)
    inner, *_ = state_of_optax.inner_states["muon"].inner_state
    for got, want in ((updates, expected), (state.mu, inner.mu)):
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5),
            got,
            want,
        )


@pytest.mark.slow
def test_a_gpu_has_nearly_the_same_direction_in_16_bits():
    found = {}
    for platform in ("cpu", "gpu"):
        with backend.computing_for(platform):
            optimizer = muon.scale_by_muon(muon_dimensions, beta=0.9, nesterov=True)
            found[platform] = jax.tree.leaves(directions(optimizer)[0])
    for one, other in zip(*found.values(), strict=True):
        assert one.dtype == other.dtype == np.float32
        assert not np.array_equal(one, other)
        cosine = np.vdot(one, other) / np.linalg.norm(one) / np.linalg.norm(other)
        assert cosine > 0.99


@pytest.mark.slow
def test_a_gpu_that_has_float16_alone_keeps_small_momentum():
    optimizer = muon.scale_by_muon(muon_dimensions, beta=0.9, nesterov=True)
    found = []
    with backend.computing_for("gpu", "7.5"):
        for size in (1.0, 1e-7):
            momentum = jax.tree.map(lambda x, size=size: size * x, random_tree(0))
            updates, _ = optimizer.update(momentum, optimizer.init(momentum))
            found.append(jax.tree.leaves(updates))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("platform, num_products", [("cpu", 10 * 3), ("gpu", 3 * 3)])
def test_matrices_of_one_shape_are_multiplied_together(platform, num_products):
    """An iteration has three products for each leaf, or for each shape."""
    optimizer = muon.scale_by_muon(muon_dimensions, beta=0.9, nesterov=True)
    params = random_tree(0)
    state = optimizer.init(params)
    with backend.computing_for(platform):
        traced = jax.make_jaxpr(lambda g: optimizer.update(g, state)[0])(params)
    assert str(traced).count("dot_general[") == num_products
