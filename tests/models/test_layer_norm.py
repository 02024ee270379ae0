"""Statistics keep their digits where the mean is large against the deviation."""

import jax
import numpy as np
import pytest

from vit_jax.models.batch_norm import BatchNorm
from vit_jax.models.layer_norm import LayerNorm


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
    found, _ = norm.init_with_output(jax.random.key(0), jax.numpy.asarray(x))
    # A float32 of this size has a spacing of `mean` * 1.2e-7.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-7 * mean)
