"""Explanations agree with those of PyTorch's gradients and of captum.

The tests are skipped where PyTorch or captum is missing; both are in the extra
"parity".
"""

import pathlib

import jax
import numpy as np
import pytest

from vit_jax import models
from vit_jax.config import default_config
from vit_jax.interpret import attention, gradcam, relevance
from vit_jax.runs.run import Run

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = pytest.mark.slow


def make_run(model):
    """A run of the model whose values are far from the initial ones."""
    rng = np.random.default_rng(0)
    config = default_config()
    config["data.mean"] = (0.4, 0.5, 0.6)
    config["data.std"] = (0.2, 0.3, 0.2)
    variables = models.init_variables(model, jax.random.key(0), (32, 32, 3))

    def change(path, leaf):
        spread = np.abs if path[-1].key == "var" else np.asarray
        return leaf + spread(rng.normal(0, 0.2, leaf.shape)).astype(np.float32)

    return Run(
        workdir=pathlib.Path("untrained"),
        config=config,
        model=model,
        variables=jax.tree_util.tree_map_with_path(change, variables),
        step=0,
        class_names=tuple("0123456789"),
        image_shape=(32, 32, 3),
    )


def to_torch(images):
    return torch.from_numpy(np.array(images)).permute(0, 3, 1, 2)


IMAGES = np.random.default_rng(1).integers(256, size=(4, 32, 32, 3), dtype=np.uint8)
CLASSES = np.array([3, 0, 9, 3])


def test_grad_cam_is_captums(make_torch_net):
    attr = pytest.importorskip("captum.attr", reason="captum is not installed")
    run = make_run(models.ResNet(10, width=8))
    net = make_torch_net(run.model, run.variables, image_size=32)
    layer = net.blocks[5]  # the last of stage 3
    maps = attr.LayerGradCam(net, layer).attribute(
        to_torch(run.normalize(IMAGES)),
        torch.from_numpy(CLASSES),
        relu_attributions=True,
    )
    expected = maps[:, 0].detach().numpy()
    assert 0.1 < np.mean(expected > 0) < 0.9
    found = gradcam.grad_cam(run, IMAGES, CLASSES, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * expected.max())


@pytest.fixture
def torch_weights(monkeypatch):
    """A list that a PyTorch forward pass fills with each block's attention weights."""
    seen = []

    def attend(query, key, value, dropout_p):
        logits = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        weights = logits.softmax(dim=-1)
        weights.retain_grad()
        seen.append(weights)
        return weights @ value

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attend)
    return seen


@pytest.fixture
def vit_run():
    size = {"width": 16, "depth": 3, "num_heads": 2, "patch_size": 8}
    return make_run(models.ViT(10, **size))


def test_rollout_is_that_of_pytorchs_weights(vit_run, torch_weights, make_torch_net):
    """Rollout of Abnar and Zuidema, 2020, from the class token to 4 x 4 patches."""
    net = make_torch_net(vit_run.model, vit_run.variables, image_size=32)
    net(to_torch(vit_run.normalize(IMAGES)))
    rolled = torch.eye(17)
    for weights in torch_weights:
        rolled = (weights.mean(dim=1) + torch.eye(17)) / 2 @ rolled
    expected = rolled[:, 0, 1:].detach().numpy()
    assert np.ptp(expected, axis=1).min() > 1e-3 * expected.max()
    seen = attention.read_attention(vit_run, IMAGES)
    found = attention.rollout_maps(seen).reshape(4, 16)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_relevance_is_by_pytorchs_gradients(vit_run, torch_weights, make_torch_net):
    """Relevance of Chefer, Gur and Wolf, 2021, equations 5 and 6."""
    net = make_torch_net(vit_run.model, vit_run.variables, image_size=32)
    logits = net(to_torch(vit_run.normalize(IMAGES)))
    logits[torch.arange(4), torch.from_numpy(CLASSES)].sum().backward()
    moved = torch.eye(17)
    for weights in torch_weights:
        moved = moved + (weights.grad * weights).clamp(min=0).mean(dim=1) @ moved
    expected = moved[:, 0, 1:].detach().numpy()
    assert np.ptp(expected, axis=1).min() > 0.01
    seen = attention.read_attention(vit_run, IMAGES)
    found = relevance.relevance_maps(vit_run, IMAGES, CLASSES, seen).reshape(4, 16)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * expected.max())
