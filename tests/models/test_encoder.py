"""The parts of an encoder block."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, ndtr

from vit_jax.models import backend
from vit_jax.models.block_settings import BlockSettings
from vit_jax.models.encoder import ACTIVATIONS, EncoderBlock


def gelu(x):
    density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    return x * ndtr(x), ndtr(x) + x * density


def gelu_tanh(x):
    """(1 + tanh(u)) / 2 is the logistic function of 2 u."""
    factor = np.sqrt(8 / np.pi)
    phi = expit(factor * (x + 0.044715 * x**3))
    slope = factor * (1 + 3 * 0.044715 * x**2)
    return x * phi, phi + x * phi * (1 - phi) * slope


@pytest.mark.parametrize(
    ("exact", "dtype", "tolerance"),
    [
        (gelu, jnp.float32, 1e-6),
        (gelu_tanh, jnp.float32, 2e-6),
        (gelu, jnp.bfloat16, 2**-8),
        (gelu_tanh, jnp.bfloat16, 2**-8),
    ],
)
def test_activations_and_their_slopes_are_exact(exact, dtype, tolerance):
    # The two activations differ by up to 5e-4.
    activation = ACTIVATIONS[exact.__name__]
    x = jnp.linspace(-9, 9, 1001).astype(dtype)
    values = activation(x)
    slopes = jax.grad(lambda x: activation(x).astype(jnp.float32).sum())(x)
    for ours, expected in zip(
        (values, slopes), exact(np.asarray(x, np.float64)), strict=True
    ):
        assert ours.dtype == dtype
        # In 16 bits the small values of negative inputs must be exact as well.
        np.testing.assert_allclose(
            np.asarray(ours, np.float64), expected, rtol=tolerance, atol=1e-6
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("implementation", "num_tokens", "qk_norm", "norm_position", "qkv_bias"),
    [
        ("plain", 5, False, "pre", True),
        ("xla", 6, False, "pre", True),
        ("plain", 5, False, "post", False),
        ("xla", 5, False, "pre", False),
        ("xla", 5, False, "post", True),
        ("xla", 6, False, "post", False),
        ("xla", 6, True, "pre", True),
        ("xla", 6, True, "post", False),
    ],
)
def test_a_gpus_norms_and_projections_compute_the_same(
    implementation, num_tokens, qk_norm, norm_position, qkv_bias
):
    settings = BlockSettings(
        norm_position=norm_position,
        qkv_bias=qkv_bias,
        qk_norm=qk_norm,
        attention_implementation=implementation,
    )
    block = EncoderBlock(settings)
    x = 3 + jax.random.normal(jax.random.key(0), (4, num_tokens, 12))

    def loss(params, x):
        return jnp.sum(jnp.sin(block.apply({"params": params}, x, train=False)))

    def init():
        # New functions, since JAX keeps what it traced of old ones.
        draw = jax.jit(lambda key: block.init(key, x, train=False)["params"])
        return draw(jax.random.key(1)), jax.jit(jax.value_and_grad(loss, (0, 1)))

    expected, values = init()
    params = jax.tree.map(
        lambda x: x + 0.1 * jax.random.normal(jax.random.key(2), x.shape), expected
    )
    plain = values(params, x)
    with backend.computing_for("gpu"):
        assert backend.folds_norms()
        found, values = init()
        folded = values(params, x)
    # The same parameters, drawn alike, in the same places.
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4),
        folded,
        plain,
    )
    if qkv_bias and (implementation, num_tokens, qk_norm) == ("xla", 6, False):
        # Three products were computed, and the keys' bias left out.
        key_slope = folded[1][0]["attention"]["qkv"]["bias"][1]
        assert not key_slope.any()
