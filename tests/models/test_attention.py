"""Self-attention: its implementations, variants and initial values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.models.attention import (
    SelfAttention,
    attend_in_16_bits,
    mimetic_kernels,
)
from vit_jax.models.block_settings import BlockSettings


def attention_with(tokens, **settings):
    layer = SelfAttention(BlockSettings(num_heads=2, **settings))
    variables = layer.init(jax.random.key(0), tokens, train=False)

    def weights(variables):
        _, state = layer.apply(
            variables, tokens, train=False, mutable=["intermediates"]
        )
        return state["intermediates"]["attention"][0]

    return variables["params"], weights


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("implementation", ["xla", "cudnn"])
def test_implementations_of_attention_agree(implementation, dtype):
    """On a GPU "cudnn" is tested; elsewhere it is computed by "plain".

    The number of tokens is odd, so that one is padded.
    """
    settings = {"num_heads": 4, "dtype": dtype, "qk_norm": True}
    layers = [
        SelfAttention(BlockSettings(**settings, attention_implementation=name))
        for name in ("plain", implementation)
    ]
    tokens = jax.random.normal(jax.random.key(1), (3, 9, 32))
    params = layers[0].init(jax.random.key(0), tokens, train=False)["params"]
    params = jax.tree.map(lambda x: 10 * x, params)

    def gradients(layer):
        def loss(params, tokens):
            out = layer.apply({"params": params}, tokens, train=True)
            return jnp.square(out.astype(jnp.float32)).sum(), out

        return jax.grad(loss, argnums=(0, 1), has_aux=True)(params, tokens)

    results = [gradients(layer) for layer in layers]
    tolerance = {jnp.float32: 1e-5, jnp.bfloat16: 3e-2}[dtype]

    def assert_close(a, b):
        a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
        assert np.abs(a - b).max() <= tolerance * np.abs(a).max()

    jax.tree.map(assert_close, *results)
    # With intermediates, the weights are given and the output is the same.
    out, state = layers[1].apply(
        {"params": params}, tokens, train=False, mutable=["intermediates"]
    )
    assert_close(out, results[1][1])
    (weights,) = state["intermediates"]["attention"]
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


@pytest.mark.slow
def test_every_implementation_has_the_same_masks():
    """Of the dropout after the output projection; a GPU trains with another one."""
    tokens = jax.random.normal(jax.random.key(0), (4, 6, 16))
    outputs = []
    for implementation in ("plain", "xla"):
        settings = BlockSettings(
            num_heads=2, dropout=0.5, attention_implementation=implementation
        )
        layer = SelfAttention(settings)
        params = layer.init(jax.random.key(1), tokens, train=False)
        rngs = {"dropout": jax.random.key(2)}
        outputs.append(layer.apply(params, tokens, train=True, rngs=rngs))
    plain, other = outputs
    assert 0.3 < (plain == 0).mean() < 0.7
    np.testing.assert_allclose(other, plain, atol=1e-6)


def attend_in_float32(query, key, value, keep, scale):
    logits = jnp.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    weights = jax.nn.softmax(logits)
    if keep is not None:
        weights = jnp.where(keep, weights * scale, 0)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, value)


@pytest.mark.slow
@pytest.mark.parametrize("drops", [False, True])
def test_attention_in_16_bits_has_the_derivatives_of_32(drops):
    keys = jax.random.split(jax.random.key(0), 5)
    shape = (2, 3, 8, 4)
    query, key, value, slope = (jax.random.normal(k, shape) for k in keys[:4])
    keep, scale = None, 1.0
    if drops:
        keep, scale = jax.random.bernoulli(keys[4], 0.75, (2, 3, 8, 8)), 1 / 0.75

    def run(attend, dtype):
        arrays = [x.astype(dtype) for x in (2 * query, key, value)]
        mixed, back = jax.vjp(lambda *x: attend(*x, keep, scale), *arrays)
        return mixed, *back(slope.astype(dtype))

    exact = run(attend_in_float32, jnp.float32)
    # With numbers of 32 bits nothing is rounded: the formulas are tested.
    for dtype, tolerance in ((jnp.float32, 1e-5), (jnp.bfloat16, 2e-2)):
        for found, wanted in zip(run(attend_in_16_bits, dtype), exact, strict=True):
            assert found.dtype == dtype
            difference = jnp.abs(found.astype(jnp.float32) - wanted).max()
            assert difference <= tolerance * jnp.abs(wanted).max()


@pytest.mark.slow
def test_attention_in_16_bits_drops_what_32_bits_drop():
    """The mask does not depend on the dtype, and the gradient knows it."""
    tokens = jax.random.normal(jax.random.key(1), (2, 8, 16))
    layers = [
        SelfAttention(BlockSettings(num_heads=2, attention_dropout=0.5, dtype=dtype))
        for dtype in (jnp.float32, jnp.bfloat16)
    ]
    params = layers[0].init(jax.random.key(0), tokens, train=False)["params"]
    # With large values a weight that is dropped changes the output by far more than
    # rounding does.
    params = jax.tree.map(lambda x: 20 * x, params)

    def gradient(layer):
        def loss(tokens):
            out = layer.apply(
                {"params": params}, tokens, train=True,
                rngs={"dropout": jax.random.key(2)},
            )  # fmt: skip
            return jnp.square(out.astype(jnp.float32)).sum()

        return jax.grad(loss)(tokens)

    wide, short = (gradient(layer) for layer in layers)
    assert jnp.abs(wide - short).max() < 0.05 * jnp.abs(wide).max()


TOKENS = jax.random.normal(jax.random.key(3), (2, 6, 8)) * 20


@pytest.mark.slow
def test_local_attention_masks_itself_and_learns_a_temperature():
    params, weights = attention_with(TOKENS, local_attention=True)
    np.testing.assert_allclose(params["inverse_temperature"], [4**-0.5] * 2)
    warm = weights({"params": params})
    np.testing.assert_array_equal(np.diagonal(warm, axis1=2, axis2=3), 0)
    np.testing.assert_allclose(warm.sum(-1), 1, rtol=1e-5)

    # A factor of 0 gives equal weights in its own head and changes no other head.
    flat = weights({"params": params | {"inverse_temperature": jnp.array([0.0, 0.5])}})
    for image_weights in flat[:, 0]:
        np.testing.assert_allclose(image_weights, (1 - np.eye(6)) / 5, rtol=1e-6)
    np.testing.assert_array_equal(flat[:, 1], warm[:, 1])
    assert np.abs(warm[:, 0] - flat[:, 0]).max() > 0.01


@pytest.mark.slow
def test_local_attention_of_a_lone_token_is_finite():
    params, weights = attention_with(TOKENS[:, :1], local_attention=True)
    np.testing.assert_array_equal(weights({"params": params}), 1.0)


@pytest.mark.slow
def test_qk_norm_makes_attention_blind_to_the_scale_of_queries():
    for qk_norm, same in ((True, True), (False, False)):
        params, weights = attention_with(TOKENS, qk_norm=qk_norm, qkv_bias=False)
        kernel = params["qkv"]["kernel"].at[:, :2].multiply(3.0)
        scaled = params | {"qkv": {"kernel": kernel}}
        change = weights({"params": scaled}) - weights({"params": params})
        assert (np.abs(change).max() < 1e-3) == same


@pytest.mark.slow
def test_mimetic_products():
    width = 64
    for num_heads in (1, 4):
        head_width = width // num_heads
        qkv, out = mimetic_kernels(jax.random.key(0), width, num_heads)
        assert qkv.shape == (width, 3, num_heads, head_width)
        assert out.shape == (num_heads, head_width, width)

        value_out = np.einsum("ahd,hdb->ab", qkv[:, 2], out)
        noise = (value_out + 0.4 * np.eye(width)) / 0.4
        assert noise.mean() == pytest.approx(0, abs=5 / width**1.5)
        assert noise.std() == pytest.approx(width**-0.5, rel=0.05)

        for head in range(num_heads):
            query, key = qkv[:, 0, head], qkv[:, 1, head]
            product = np.asarray(query @ key.T)
            assert np.linalg.matrix_rank(product, tol=1e-3) == head_width
            # Both factors have the same singular values.
            np.testing.assert_allclose(
                *(np.linalg.norm(x, axis=0) for x in (query, key)), rtol=1e-4
            )
            off_diagonal = product[~np.eye(width, dtype=bool)]
            fraction = np.diag(product).mean() / 0.7
            assert abs(off_diagonal.mean()) < 0.01
            if num_heads == 1:
                assert fraction == pytest.approx(1, abs=0.1)
                assert off_diagonal.std() == pytest.approx(0.7 * width**-0.5, rel=0.05)
            else:
                # The factors keep the largest singular values: more than 1 / heads.
                assert 1 / num_heads < fraction < 1


@pytest.mark.slow
def test_mimetic_init_is_the_layers_own():
    params, _ = attention_with(TOKENS, mimetic_init=True)
    plain, _ = attention_with(TOKENS)
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, plain)
    product = np.einsum(
        "ahd,hdb->ab", params["qkv"]["kernel"][:, 2], params["out"]["kernel"]
    )
    assert np.diag(product).mean() < -0.2
    np.testing.assert_array_equal(params["qkv"]["bias"], 0)
