"""The benchmark's numbers agree with each other, and its rival is the same model."""

import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from experiments import benchmark, benchmark_augment
from vit_jax import models
from vit_jax.errors import UserError

ROOT = pathlib.Path(__file__).parents[1]
TINY = {"width": 16, "depth": 1, "num_heads": 2}


def run_benchmark(*arguments, status=0):
    command = [sys.executable, "-m", "experiments.benchmark", *arguments]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=500
    )
    assert result.returncode == status, result.stderr
    return result.stdout, result.stderr


def test_benchmark_writes_numbers_that_agree(tmp_path):
    settings = [f"--config.model.{key}={value}" for key, value in TINY.items()]
    # A ResNet has no heads, and its failure does not lose the other model.
    printed, told = run_benchmark(
        "--models=resnet18,vit_192x9", "--batch_size=4", "--repeats=3",
        f"--out={tmp_path}", *settings, status=1,
    )  # fmt: skip
    assert "error: " in told and "resnet18 failed: exit status 1" in told
    (file,) = tmp_path.iterdir()
    result = json.loads(file.read_text())
    row = printed.splitlines()[-1]
    assert row.startswith("vit_192x9 ")
    assert f"{result['images_per_second']:.1f}" in row

    model = models.ViT(10, **TINY)
    assert result["flops_per_step"] == 4 * 6 * models.count_macs(model, (32, 32, 3))
    assert result["num_params"] == models.count_params(
        models.init_variables(model, jax.random.key(0), (32, 32, 3))
    )
    step = result["step_seconds"]["augmented"]
    assert len(step["values"]) == 3
    assert 0 < step["min"] <= step["quartiles"][0] <= step["median"] <= step["max"]
    assert result["images_per_second"] == pytest.approx(4 / step["median"])
    assert result["epoch_seconds"] == pytest.approx(50_000 / 4 * step["median"])
    assert result["utilisation"] == pytest.approx(
        result["flops_per_step"] / step["median"] / result["peak_flops_per_second"]
    )
    plain = result["step_seconds"]["jax"]["median"]
    assert result["augmentation_share"] == pytest.approx(1 - plain / step["median"])
    assert result["compile_seconds"] > 0
    assert result["peak_memory_bytes"] > result["temp_bytes"] > 0
    assert result["versions"]["jax"] == jax.__version__
    assert "--batch_size=4" in result["command"]
    assert str(ROOT) not in file.read_text()


@pytest.mark.parametrize("mode", ["--batch_size=4", "--attention", "--augmentations"])
def test_a_slip_is_refused(mode, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmark", mode, "--confg.model.width=3"])
    with pytest.raises(UserError, match=r"argument --confg\.model\.width=3;"):
        benchmark.main()


def test_augmentations_of_a_config_are_timed(monkeypatch, capsys):
    monkeypatch.setattr(benchmark_augment, "AUGMENTATIONS", {"flip": {"crop": "none"}})
    settings = [f"--config.model.{key}={value}" for key, value in TINY.items()]
    settings.append("--config.augment.policy=none")
    result = benchmark_augment.measure(["vit_192x9"], 4, 1, settings)
    costs = result["augment_seconds"]
    assert costs.keys() == {"flip", "as vit_192x9 is trained"}
    assert min(costs.values()) > 0 and result["step_seconds"]["vit_192x9"] > 0
    assert f"{1e3 * costs['flip']:.3f} ms" in capsys.readouterr().out


def test_every_implementation_of_attention_is_timed_or_says_why_not(tmp_path):
    printed, _ = run_benchmark(
        "--attention", "--models=vit_192x9", "--batch_size=1", "--repeats=1",
        "--config.model.width=16", "--config.model.num_heads=2", f"--out={tmp_path}",
    )  # fmt: skip
    (file,) = tmp_path.iterdir()
    result = json.loads(file.read_text())["models"]["vit_192x9"]
    assert result["shape"] == [1, 65, 2, 8]
    for name in ("plain", "xla", "cudnn"):
        (line,) = (row for row in printed.splitlines() if f" {name} " in row)
        if "cannot run: " in line:
            assert result[name]["error"] in line
        else:
            assert f" {1e3 * result[name]['seconds']['median']:.3f} ms " in line
    assert " ms " in next(row for row in printed.splitlines() if " plain " in row)


MODELS = {
    "vit": models.ViT(10, **TINY, dropout=0.1, patch_norm=True, qkv_bias=False),
    "resnet": models.ResNet(10, width=8, stage_sizes=(1, 2)),
}


def copy_weights(variables, net):
    """Copies JAX variables into a PyTorch model of `experiments.torch_models`."""
    import torch

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
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from experiments import torch_models

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
