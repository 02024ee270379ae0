"""What a compiled program stores in place of computing it again."""

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.models import backend

X = jax.random.normal(jax.random.key(0), (2, 8, 4))


def loss(x):
    return jnp.sin(backend.with_stored_gradient(x) ** 2).sum()


def test_the_gradient_is_the_same_forward_and_backward():
    expected = jax.vmap(lambda x: 2 * x * jnp.cos(x**2))(X)
    np.testing.assert_allclose(jax.vmap(jax.grad(loss))(X), expected, rtol=1e-5)
    _, change = jax.jvp(loss, (X,), (X,))
    np.testing.assert_allclose(change, (expected * X).sum(), rtol=1e-5)


def test_the_compiled_program_keeps_the_barrier():
    gradient = jax.grad(loss)
    assert "opt-barrier" in backend.jit(gradient).lower(X).compile().as_text()
    # Without the options of `backend.jit`, XLA removes it.
    assert "opt-barrier" not in jax.jit(gradient).lower(X).compile().as_text()
