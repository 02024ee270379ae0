"""Explanations are those of PyTorch's packages: captum's Grad-CAM, txv's attention.

The tests are skipped where PyTorch, captum (both in the extra "parity") or txv are
missing. No extra has txv, because it brings torchvision and OpenCV.
"""

import pathlib

import jax
import numpy as np
import pytest

from vit_jax import models
from vit_jax.config import default_config, set_value
from vit_jax.interpret import attention, gradcam, relevance
from vit_jax.runs.load import Run

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = pytest.mark.slow


def make_run(model):
    """A run of the model whose values are far from the initial ones."""
    rng = np.random.default_rng(0)
    config = default_config()
    set_value(config, "data.mean", (0.4, 0.5, 0.6))
    set_value(config, "data.std", (0.2, 0.3, 0.2))
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


@pytest.mark.parametrize("stage", [3, 4])
def test_grad_cam_is_captums(stage, make_torch_net):
    attr = pytest.importorskip("captum.attr", reason="captum is not installed")
    run = make_run(models.ResNet(10, width=8))
    net = make_torch_net(run.model, run.variables, image_size=32)
    layer = net.blocks[2 * stage - 1]
    maps = attr.LayerGradCam(net, layer).attribute(
        to_torch(run.normalize(IMAGES)),
        torch.from_numpy(CLASSES),
        relu_attributions=True,
    )
    expected = maps[:, 0].detach().numpy()
    assert 0.1 < np.mean(expected > 0) < 0.9
    found = gradcam.grad_cam(run, IMAGES, CLASSES, stage)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * expected.max())


@pytest.fixture
def make_txv_net(make_torch_net):
    """A function from a run to its model as txv, a package of explanations, has it."""
    pytest.importorskip("txv", reason="no working txv", exc_type=ImportError)
    from txv.models import VisionTransformer

    def make(run):
        model = run.model
        net = VisionTransformer(
            32, model.patch_size, 3, 10, "vit", model.width, model.depth,
            model.num_heads, model.mlp_ratio, qkv_bias=True,
        )  # fmt: skip
        state = make_torch_net(model, run.variables, image_size=32).state_dict()
        for ours, theirs in (
            ("projection.", "patch_embed.proj."),
            ("class_token", "cls_token"),
            ("positions", "pos_embed"),
            ("final_norm.", "norm."),
            (".attention.out.", ".attn.proj."),
            (".attention.", ".attn."),
            (".hidden.", ".mlp.fc1."),
            (".out.", ".mlp.fc2."),
        ):
            state = {name.replace(ours, theirs): value for name, value in state.items()}
        net.load_state_dict(state)
        return net.eval()

    return make


def make_vit_run(num_heads):
    # txv has PyTorch's epsilon.
    size = {"width": 16, "depth": 3, "num_heads": num_heads, "patch_size": 8}
    return make_run(models.ViT(10, norm_eps=1e-5, **size))


def test_rollout_is_txvs(make_txv_net):
    run = make_vit_run(num_heads=2)
    net = make_txv_net(run)
    from txv import exp

    seen = attention.read_attention(run, IMAGES)
    explained = exp.AttentionRollout(net).explain(to_torch(run.normalize(IMAGES)))
    expected = explained.detach().numpy()
    assert np.ptp(expected, axis=1).min() > 1e-3 * expected.max()
    np.testing.assert_allclose(
        attention.rollout_maps(seen).reshape(4, 16), expected, rtol=1e-4
    )


def test_relevance_is_txvs(make_txv_net):
    """One head and image, since txv averages before it takes the positive part."""
    run = make_vit_run(num_heads=1)
    net = make_txv_net(run)
    from txv import exp

    seen = attention.read_attention(run, IMAGES)
    images = to_torch(run.normalize(IMAGES))
    expected = np.concatenate(
        [
            exp.GenericAttention(net).explain(images[i : i + 1], index).detach().numpy()
            for i, index in enumerate(CLASSES)
        ]
    )
    found = relevance.relevance_maps(run, IMAGES, CLASSES, seen).reshape(4, 16)
    assert np.ptp(expected, axis=1).min() > 0.01
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * expected.max())
