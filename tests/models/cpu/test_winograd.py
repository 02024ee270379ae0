"""Winograd's algorithm against a convolution by hand."""

import jax
import numpy as np
import pytest

from tests.models.cpu.convolutions import assert_gradients_agree, numpy_conv
from vit_jax.models.cpu import winograd


@pytest.mark.slow
@pytest.mark.parametrize("sides", [(4, 4), (12, 8)])
def test_winograds_algorithm_is_a_convolution(sides):
    x = jax.random.normal(jax.random.key(0), (2, 3, *sides, 5))
    kernel = jax.random.normal(jax.random.key(1), (2, 3, 3, 5, 7))
    exact = numpy_conv(np.float64(x[0]), np.float64(kernel[0]), stride=1)
    y = winograd.convolve(x[0], kernel[0])
    assert np.abs(y - exact).max() < 1e-5 * np.abs(exact).max()

    def convolve(x, kernel, *arguments, **options):
        return winograd.convolve(x, kernel)

    assert_gradients_agree(convolve, x, kernel, 1, 2e-5)
