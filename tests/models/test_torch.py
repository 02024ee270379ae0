"""The benchmark's PyTorch models compute what the models of `vit_jax` compute.

The tests are skipped where PyTorch is missing, which is in the extra "parity".
"""

import numpy as np
import pytest

from tests.models.shapes import random_images, scaled_variables
from vit_jax import models

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = pytest.mark.slow

TINY = {"width": 16, "depth": 1, "num_heads": 2}
MODELS = {
    "vit": models.ViT(10, **TINY, dropout=0.1, patch_norm=True, qkv_bias=False),
    "conv_stem": models.ViT(
        10, **TINY, patch_size=4, stem="conv", stem_channels=(4, 4, 8),
        stem_norm="batch", stem_downsampling="avg_pool", pooling="mean",
    ),
    "resnet": models.ResNet(10, width=8, stage_sizes=(1, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_pytorch_model_is_the_same(name, make_torch_net):
    model = MODELS[name]
    variables = scaled_variables(model, (16, 16, 3))
    net = make_torch_net(model, variables, image_size=16)
    assert sum(p.numel() for p in net.parameters()) == models.count_params(
        variables["params"]
    )
    images = random_images(3, (16, 16, 3))
    with torch.no_grad():
        logits = net(torch.tensor(np.asarray(images)).permute(0, 3, 1, 2)).numpy()
    expected = np.asarray(model.apply(variables, images))
    assert expected.std() > 0.1
    np.testing.assert_allclose(logits, expected, rtol=2e-4, atol=2e-4)
