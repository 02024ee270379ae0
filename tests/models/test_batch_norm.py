import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.models.batch_norm import BatchNorm

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
