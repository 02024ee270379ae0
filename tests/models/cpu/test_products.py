"""Matrix products of dense layers as a CPU computes them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from vit_jax.models.cpu.products import flat_dot_general


@pytest.mark.slow
@pytest.mark.parametrize(
    "axis, features, in_shape", [(-1, (3, 2), (2, 5, 6)), ((-2, -1), 7, (2, 5, 3, 4))]
)
def test_flat_product_of_a_dense_layer(axis, features, in_shape):
    x = jax.random.normal(jax.random.key(0), in_shape)
    layer = nn.DenseGeneral(features, axis, bias_init=nn.initializers.normal(1))
    variables = layer.init(jax.random.key(1), x)
    flat = layer.clone(dot_general=flat_dot_general)
    expected = layer.apply(variables, x)
    assert jax.tree.all(
        jax.tree.map(np.array_equal, flat.init(jax.random.key(1), x), variables)
    )
    np.testing.assert_allclose(flat.apply(variables, x), expected, rtol=1e-5, atol=1e-6)


def test_no_activations_are_transposed_for_a_kernels_gradient():
    def transposed(dot_general):
        layer = nn.Dense(7, dot_general=dot_general)
        x, kernel, y = jnp.ones((2, 3, 5)), jnp.ones((5, 7)), jnp.ones((2, 3, 7))

        def gradient(x, kernel, y):
            def product(kernel):
                return layer.apply({"params": {"kernel": kernel, "bias": y[0, 0]}}, x)

            return jax.vjp(product, kernel)[1](y)

        text = jax.jit(gradient).lower(x, kernel, y).compile().as_text()
        return "f32[7,2,3]" in text or "f32[5,2,3]" in text

    assert not transposed(flat_dot_general)
    # Without the product of this project XLA transposes.
    assert transposed(None)
