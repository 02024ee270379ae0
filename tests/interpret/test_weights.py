"""Filters and positions as the weights of a model hold them."""

import numpy as np
import pytest

from tests.interpret.untrained import make_resnet_run, make_run
from vit_jax.interpret import weights as model_weights


@pytest.mark.slow
@pytest.mark.parametrize("stem", ["patch", "conv", "shifted_patch"])
def test_stem_filters_are_orthonormal(stem):
    run = make_run(stem=stem, stem_channels=(8,) if stem == "conv" else ())
    filters = model_weights.stem_filters(run)
    assert filters.shape[2] == 3
    flat = filters.reshape(-1, filters.shape[-1])
    np.testing.assert_allclose(flat.T @ flat, np.eye(flat.shape[1]), atol=1e-4)


def test_few_filters_have_one_component_less():
    run = make_resnet_run()
    kernel = run.variables["params"]["stem_conv"]["kernel"]
    assert kernel.shape[-1] < 27
    filters = model_weights.stem_filters(run)
    assert filters.shape == (*kernel.shape[:3], kernel.shape[-1] - 1)
    # All of them have a part in the filters: these differ along each.
    flat = kernel.reshape(27, -1) - kernel.reshape(27, -1).mean(-1, keepdims=True)
    spread = np.std(filters.reshape(27, -1).T @ flat, axis=1)
    assert spread.min() > 1e-3 * spread.max()


def test_similarity_of_positions():
    found = model_weights.position_similarity(make_run(pooling="cls"))
    assert found.shape == (2, 2, 2, 2)
    np.testing.assert_allclose(np.einsum("ijij->ij", found), 1, rtol=1e-5)
    assert model_weights.position_similarity(make_resnet_run()) is None
