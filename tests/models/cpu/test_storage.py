"""What a compiled program stores in place of computing it again."""

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.models import backend
from vit_jax.models.norms import BatchNorm


def test_the_gradient_after_batch_norm_is_stored_in_the_compiled_program():
    x = jax.random.normal(jax.random.key(0), (8, 4))
    weights = jax.random.normal(jax.random.key(1), (8, 4))
    norm = BatchNorm(train=True)
    variables = norm.init(jax.random.key(0), x)

    def loss(x):
        y, _ = norm.apply(variables, x, mutable=["batch_stats"])
        return (weights * jax.nn.relu(y)).sum()

    def expected_loss(x):
        y = (x - x.mean(0, keepdims=True)) / jnp.sqrt(x.var(0, keepdims=True) + 1e-5)
        return (weights * jax.nn.relu(y)).sum()

    compiled = backend.jit(jax.grad(loss)).lower(x).compile()
    # XLA would have removed the barrier without the option of `backend.jit`.
    assert "opt-barrier" in compiled.as_text()
    assert "opt-barrier" not in jax.jit(jax.grad(loss)).lower(x).compile().as_text()
    np.testing.assert_allclose(compiled(x), jax.grad(expected_loss)(x), atol=1e-5)
