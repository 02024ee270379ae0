"""Norms: exact statistics, and BatchNorm in training, in evaluation and frozen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.models.norms import BatchNorm, LayerNorm

X = jax.random.normal(jax.random.key(0), (16, 3)) * 2 + 1


def apply(train, **collections):
    norm = BatchNorm(train=train, momentum=0.9)
    variables = norm.init(jax.random.key(1), X)
    stats = {"mean": jnp.full(3, 0.5), "var": jnp.full(3, 4.0)}
    variables = {"params": variables["params"], "batch_stats": stats} | collections
    result, changed = norm.apply(variables, X, mutable=["batch_stats"])
    return result, stats, changed["batch_stats"]


def test_a_frozen_norm_computes_in_training_as_in_evaluation():
    frozen, before, after = apply(True, frozen={"statistics": jnp.zeros(())})
    expected, _, _ = apply(False)
    np.testing.assert_array_equal(frozen, expected)
    np.testing.assert_allclose(frozen, (X - 0.5) / np.sqrt(4 + 1e-5), rtol=1e-5)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])


def test_a_norm_in_training_uses_and_follows_the_batch():
    result, _, after = apply(True)
    np.testing.assert_allclose(result.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(after["mean"], 0.45 + 0.1 * X.mean(0), rtol=1e-5)


@pytest.mark.parametrize(
    ("norm", "axis"), [(LayerNorm(1e-6), 1), (BatchNorm(epsilon=1e-6, train=True), 0)]
)
@pytest.mark.parametrize("mean", [100, 3000])
def test_normalised_as_in_64_bits(norm, axis, mean):
    rng = np.random.default_rng(0)
    x = (mean + rng.standard_normal((64, 64))).astype(np.float32)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis, keepdims=True)
    expected = centred / np.sqrt(wide.var(axis, keepdims=True) + 1e-6)
    found, _ = norm.init_with_output(jax.random.key(0), jnp.asarray(x))
    # A float32 of this size has a spacing of `mean` * 1.2e-7.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-7 * mean)
