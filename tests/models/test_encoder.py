"""The parts of an encoder block."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr

from vit_jax.models.encoder import ACTIVATIONS


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(jnp.float32, 1e-6), (jnp.bfloat16, 2**-8)]
)
def test_gelu_and_its_slope_are_exact(dtype, tolerance):
    # The tanh approximation is up to 5e-4 away.
    x = jnp.linspace(-9, 9, 1001).astype(dtype)
    exact = np.asarray(x, np.float64)
    density = np.exp(-(exact**2) / 2) / np.sqrt(2 * np.pi)
    values = ACTIVATIONS["gelu"](x)
    slopes = jax.grad(lambda x: ACTIVATIONS["gelu"](x).astype(jnp.float32).sum())(x)
    for ours, expected in [
        (values, exact * ndtr(exact)),
        (slopes, ndtr(exact) + exact * density),
    ]:
        assert ours.dtype == dtype
        # In 16 bits the small values of negative inputs must be exact as well.
        np.testing.assert_allclose(
            np.asarray(ours, np.float64), expected, rtol=tolerance, atol=1e-6
        )
