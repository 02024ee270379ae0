"""Parity with timm and Hugging Face: random weights, converted both ways."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.pretrained.timm_reference import randomized, timm, torch
from vit_jax.models import ViT
from vit_jax.models.encoder import EncoderBlock
from vit_jax.pretrained import (
    implied_settings,
    load_pretrained,
    read_weights,
    save_timm,
)
from vit_jax.pretrained.fit import resize_grid, resize_kernel

pytestmark = pytest.mark.slow

SHAPE = (32, 32, 3)
IMAGES = np.random.default_rng(0).standard_normal((2, *SHAPE)).astype(np.float32)
# Those that are often fine-tuned have all their blocks, and one its own image size.
CASES = [
    ("vit_tiny_patch16_224", {"depth": 12, "img_size": 224}),
    ("vit_small_patch8_224", {}),
    ("vit_base_patch16_224", {"reg_tokens": 4}),
    ("vit_base_patch16_reg4_gap_256", {"fc_norm": False}),
    ("deit3_small_patch16_224", {}),
    ("deit_tiny_distilled_patch16_224", {}),
]


def model_for(settings, **changes):
    """The ViT that the file implies, with a head of 10 classes."""
    return ViT(**({"num_classes": 10} | settings | changes))


def outputs(model, params, images=IMAGES):
    """Logits, and the tokens after every block in timm's order."""
    logits, state = model.apply(
        {"params": params},
        jnp.asarray(images),
        capture_intermediates=lambda module, _: isinstance(module, EncoderBlock),
        mutable=["intermediates"],
    )
    tokens = []
    for i in range(model.depth):
        (x,) = state["intermediates"][f"block{i}"]["__call__"]
        first, num = model.num_prefix_tokens, model.num_registers
        end = x.shape[1] - num
        order = [*range(first), *range(end, end + num), *range(first, end)]
        tokens.append(np.asarray(x)[:, order])
    return np.asarray(logits), tokens


def reference_outputs(reference, images=IMAGES):
    tokens = []
    hooks = [
        block.register_forward_hook(lambda *arguments: tokens.append(arguments[2]))
        for block in reference.blocks
    ]
    with torch.no_grad():
        logits = reference(torch.tensor(images.transpose(0, 3, 1, 2)))
    for hook in hooks:
        hook.remove()
    return logits.numpy(), [x.numpy() for x in tokens]


def assert_same(ours, theirs):
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-4, rtol=0)
    for mine, other in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-4, rtol=0)


def make_timm(name, **options):
    torch.manual_seed(0)
    sizes = {"depth": 2, "img_size": 32, "num_classes": 10}
    return randomized(timm.create_model(name, **sizes | options))


@pytest.mark.parametrize(("name", "options"), CASES)
def test_logits_and_tokens_are_timms(name, options, tmp_path):
    reference = make_timm(name, **options)
    shape = (*reference.patch_embed.img_size, 3)
    images = np.random.default_rng(0).standard_normal((2, *shape)).astype(np.float32)
    torch.save(reference.state_dict(), tmp_path / "timm.pth")
    weights = read_weights(tmp_path / "timm.pth")
    settings = implied_settings(weights)
    model = model_for(settings, num_heads=reference.blocks[0].attn.num_heads)
    params, report = load_pretrained(
        weights, model, shape, jax.random.key(0), head="keep"
    )
    assert len(reference.blocks) == options.get("depth", 2)
    assert not report.differences and not report.new and not report.resized
    assert weights.sha256 in str(report)
    assert model.distillation_token == ("distilled" in name)
    assert_same(outputs(model, params, images), reference_outputs(reference, images))


@pytest.mark.parametrize(
    "changes",
    [
        {"num_registers": 2, "layer_scale": 0.1},
        {"pooling": "mean", "qkv_bias": False, "patch_norm": True},
        {"distillation_token": True},
    ],
)
def test_timm_loads_what_we_write(changes, tmp_path):
    model = ViT(10, width=32, depth=2, num_heads=4, patch_size=8, **changes)
    shape = (32, 48, 3)
    params = model.init(jax.random.key(0), jnp.zeros((1, *shape)))["params"]
    arguments = save_timm(tmp_path / "ours.safetensors", model, params, shape)
    kind = "VisionTransformer" + "Distilled" * model.distillation_token
    reference = getattr(timm.models, kind)(**arguments).eval()
    tensors = pytest.importorskip("safetensors.torch").load_file(
        tmp_path / "ours.safetensors"
    )
    reference.load_state_dict(tensors, strict=True)
    images = np.random.default_rng(1).standard_normal((2, *shape)).astype(np.float32)
    assert_same(outputs(model, params, images), reference_outputs(reference, images))

    again, report = load_pretrained(
        tmp_path / "ours.safetensors", model, shape, jax.random.key(1), head="keep"
    )
    assert not report.differences
    jax.tree.map(np.testing.assert_array_equal, again, params)


@pytest.mark.parametrize("size", [(4, 4), (2, 2), (20, 9)])
def test_positions_are_resized_as_timm_does(size):
    grid = np.random.default_rng(0).standard_normal((14, 14, 8)).astype(np.float32)
    tokens = torch.tensor(grid.reshape(1, 196, 8))
    for rule, options in {
        "cubic_antialias": {},
        "cubic": {"antialias": False},
        "bilinear": {"antialias": False, "interpolation": "bilinear"},
    }.items():
        expected = timm.layers.resample_abs_pos_embed(
            tokens, list(size), num_prefix_tokens=0, **options
        )
        ours = resize_grid(grid, size, rule).reshape(1, -1, 8)
        np.testing.assert_allclose(ours, expected.numpy(), atol=1e-5, rtol=0)
    expected = torch.nn.functional.interpolate(
        torch.tensor(grid.transpose(2, 0, 1)[None]),
        scale_factor=[(n + 0.1) / 14 for n in size],
        mode="bicubic",
    )
    ours = resize_grid(grid, size, "dino").transpose(2, 0, 1)[None]
    np.testing.assert_allclose(ours, expected.numpy(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("side", [4, 24])
def test_patch_kernels_are_resized_as_timm_does(side):
    kernel = np.random.default_rng(0).standard_normal((16, 16, 3, 4))
    kernel = kernel.astype(np.float32)
    expected = timm.layers.resample_patch_embed(
        torch.tensor(kernel.transpose(3, 2, 0, 1)), [side, side]
    )
    ours = resize_kernel(kernel, side).transpose(3, 2, 0, 1)
    scale = abs(expected.numpy()).max()
    np.testing.assert_allclose(ours / scale, expected.numpy() / scale, atol=1e-5)


def test_weights_for_224_pixels_are_fitted_as_timm_fits_them(tmp_path):
    large = randomized(
        timm.create_model("vit_tiny_patch16_224", depth=1, num_classes=10)
    )
    torch.save({"model": large.state_dict()}, tmp_path / "large.pth")
    small = timm.create_model(
        "vit_tiny_patch16_224", depth=1, num_classes=10, img_size=32, patch_size=8
    ).eval()
    state = timm.models.vision_transformer.checkpoint_filter_fn(
        large.state_dict(), small
    )
    small.load_state_dict(state)
    model = ViT(10, depth=1, patch_size=8)
    params, report = load_pretrained(
        tmp_path / "large.pth",
        model,
        SHAPE,
        jax.random.key(0),
        head="keep",
        resize_patches=True,
    )
    assert set(report.resized) == {"positions", "stem/projection/kernel"}
    assert report.pretraining_image == (224, 224)
    assert_same(outputs(model, params), reference_outputs(small))


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_logits_and_tokens_are_hugging_faces(file, tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.ViTConfig(
        **sizes, intermediate_size=128, image_size=32, patch_size=8, num_labels=10
    )
    reference = randomized(transformers.ViTForImageClassification(config))
    reference.save_pretrained(tmp_path)
    if file == "pytorch_model.bin":
        # What older versions wrote: the same names, which differ from those in memory.
        old = tmp_path / "model.safetensors"
        load_file = pytest.importorskip("safetensors.torch").load_file
        torch.save(load_file(old), tmp_path / file)
        old.unlink()
    assert read_weights(tmp_path).path == str(tmp_path / file)
    settings = implied_settings(tmp_path)
    assert (settings["num_heads"], settings["norm_eps"]) == (4, 1e-12)
    model = model_for(settings)
    params, report = load_pretrained(
        tmp_path, model, SHAPE, jax.random.key(0), head="keep"
    )
    assert not report.differences and not report.dropped
    with torch.no_grad():
        theirs = reference(
            torch.tensor(IMAGES.transpose(0, 3, 1, 2)), output_hidden_states=True
        )
    tokens = [x.numpy() for x in theirs.hidden_states[1:]]
    assert_same(outputs(model, params), (theirs.logits.numpy(), tokens))


def test_google_layouts_are_read_as_timm_reads_them(tmp_path):
    from tests.pretrained.weight_files import google_tensors, numpy_vit

    tensors = google_tensors(numpy_vit(classes=10))
    np.savez(tmp_path / "google.npz", **tensors)
    reference = timm.models.VisionTransformer(
        img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=2, num_classes=10,
        mlp_ratio=2, act_layer="gelu_tanh",
    )  # fmt: skip
    reference.load_pretrained(str(tmp_path / "google.npz"))
    settings = implied_settings(tmp_path / "google.npz")
    assert settings.pop("activation") == "gelu_tanh"
    # Both use the exact GELU.
    for block in reference.blocks:
        block.mlp.act = torch.nn.GELU()
    model = model_for(settings)
    params, report = load_pretrained(
        tmp_path / "google.npz",
        model,
        SHAPE,
        jax.random.key(0),
        head="keep",
        resize="bilinear",
    )
    assert report.differences == {"activation": ("gelu_tanh", "gelu")}
    assert_same(outputs(model, params), reference_outputs(reference.eval()))
