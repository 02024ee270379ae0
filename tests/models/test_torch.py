"""The same in PyTorch: the benchmark's rival models, and maps of what a model sees.

Skipped where PyTorch, captum (both in the extra "benchmark") or txv, which brings
torchvision and OpenCV and is in no extra, are missing.
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

from experiments.benchmarking import torch_models  # noqa: E402

TINY = {"width": 16, "depth": 1, "num_heads": 2}
MODELS = {
    "vit": models.ViT(10, **TINY, dropout=0.1, patch_norm=True, qkv_bias=False),
    "resnet": models.ResNet(10, width=8, stage_sizes=(1, 2)),
}


def copy_weights(variables, net):
    """Copies JAX variables into a model of `torch_models`."""
    state = {}
    for collection in ("params", "batch_stats"):
        tree = variables.get(collection, {})
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            *layers, name = (entry.key for entry in path)
            value = np.asarray(leaf)
            if name == "kernel":
                module = net.get_submodule(".".join(layers))
                shape = module.weight.shape
                # Convolutions [h, w, in, out]; dense layers [in..., out...].
                value = (
                    value.transpose(3, 2, 0, 1)
                    if len(shape) == 4
                    else value.reshape(shape[::-1]).T
                )
            name = {"kernel": "weight", "scale": "weight", "mean": "running_mean",
                    "var": "running_var"}.get(name, name)  # fmt: skip
            state[".".join([*layers, name])] = torch.tensor(
                value if name != "bias" else value.reshape(-1)
            )
    missing = net.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys
    assert all("num_batches" in key for key in missing.missing_keys)


def rename(variables):
    """The JAX models' names of layers as the PyTorch models have them."""

    def layer(name):
        if name.startswith("block"):
            return f"blocks.{name.removeprefix('block')}"
        return name

    def blocks_in_order(tree):
        blocks = sorted(name for name in tree if name.startswith("stage"))
        return {
            f"blocks.{blocks.index(name)}" if name in blocks else layer(name): value
            for name, value in tree.items()
        }

    renamed = {}
    for collection, tree in variables.items():
        tree = blocks_in_order(tree)
        if "stem" in tree:
            tree["projection"] = tree.pop("stem")["projection"]
        for name, block in tree.items():
            if name.startswith("blocks.") and "mlp" in block:
                block = dict(block)
                tree[name] = block | block.pop("mlp")
        renamed[collection] = tree
    return renamed


@pytest.mark.parametrize("name", MODELS)
def test_the_pytorch_model_is_the_same(name):
    model = MODELS[name]
    shapes = jax.eval_shape(model.init, jax.random.key(0), np.zeros((1, 16, 16, 3)))
    rng = np.random.default_rng(0)
    variables = jax.tree.map(
        lambda leaf: np.abs(rng.normal(0, 0.3, leaf.shape)).astype(np.float32), shapes
    )
    net = torch_models.make_model(model, 16).eval()
    assert sum(p.numel() for p in net.parameters()) == models.count_params(
        shapes["params"]
    )
    copy_weights(rename(variables), net)
    images = rng.normal(size=(3, 16, 16, 3)).astype(np.float32)
    with torch.no_grad():
        logits = net(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
    expected = np.asarray(model.apply(variables, jax.numpy.asarray(images)))
    assert expected.std() > 0
    np.testing.assert_allclose(logits, expected, rtol=2e-4, atol=2e-4)


def make_run(model):
    """A run of the model with values unlike those it starts from."""
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


def make_net(run):
    net = torch_models.make_model(run.model, 32).eval()
    copy_weights(rename(run.variables), net)
    return net


def to_torch(images):
    return torch.from_numpy(np.array(images)).permute(0, 3, 1, 2)


IMAGES = np.random.default_rng(1).integers(256, size=(4, 32, 32, 3), dtype=np.uint8)
CLASSES = np.array([3, 0, 9, 3])


@pytest.mark.parametrize("stage", [3, 4])
def test_grad_cam_is_captums(stage):
    attr = pytest.importorskip("captum.attr", reason="captum is not installed")
    run = make_run(models.ResNet(10, width=8))
    net = make_net(run)
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


def make_txv_net(run):
    """The run's model as a package of explanations for PyTorch has it."""
    pytest.importorskip("txv", reason="no working txv", exc_type=ImportError)
    from txv.models import VisionTransformer

    model = run.model
    net = VisionTransformer(
        32, model.patch_size, 3, 10, "vit", model.width, model.depth, model.num_heads,
        model.mlp_ratio, qkv_bias=True,
    )  # fmt: skip
    state = make_net(run).state_dict()
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


def make_vit_run(num_heads):
    # txv has PyTorch's epsilon.
    size = {"width": 16, "depth": 3, "num_heads": num_heads, "patch_size": 8}
    return make_run(models.ViT(10, norm_eps=1e-5, **size))


def test_rollout_is_txvs():
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


def test_relevance_is_txvs():
    """For one head and image: txv averages before it takes the positive part."""
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
