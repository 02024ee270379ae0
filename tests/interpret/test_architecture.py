"""The description of a network agrees with the module, part by part."""

import functools

import jax
import pytest

from tests.interpret.descriptions import describe, flat
from tests.rows import slow
from vit_jax import models
from vit_jax.config.settings import FIELDS
from vit_jax.interpret.architecture import describe_architecture


def by_name(parts):
    return {part.name: part for part in parts}


@pytest.mark.parametrize(
    "name, settings",
    [
        ("vit_128x6_post_norm", {"depth": 2}),
        slow("vit_192x12_patch_norm", {"depth": 2, "num_registers": 3}),
        ("cct_7", {"depth": 2}),
        ("vit", {"depth": 1, "distillation_token": True, "num_registers": 1}),
        ("vit", {"depth": 1, "stem": "shifted_patch", "local_attention": True}),
        (
            "vit",
            {"depth": 2, "qk_norm": True, "layer_scale": 0.1, "pooling": "mean"},
        ),
        ("resnet18", {}),
        slow("resnet50", {}),
    ],
)
def test_every_parameter_is_in_one_part(name, settings):
    described, model = describe(name, **settings)
    init = functools.partial(models.init_variables, model, image_shape=(32, 32, 3))
    params = jax.eval_shape(init, jax.random.key(0))["params"]
    assert sum(p.num_params for p in described.parts) == models.count_params(params)
    block = "block0" if "block0" in params else "stage2_block1"
    opened = sum(part.num_params for part in flat(described.block))
    assert opened == models.count_params(params[block])
    # The input of the block is the output of the part before it.
    assert described.block_input == described.parts[described.opened - 1].output
    assert described.block[-1].output == described.parts[described.opened].output


def test_a_vit_from_image_to_classes():
    described, _ = describe("vit_192x9")
    # The counts are those of the study that had this model.
    assert [(p.name, p.output, p.num_params) for p in described.parts] == [
        ("Image", "32 × 32 × 3", 0),
        ("Patch embedding", "8 × 8 × 192", 9_408),
        ("Tokens", "64 tokens × 192", 0),
        ("Class token", "65 tokens × 192", 192),
        ("Positions", "65 tokens × 192", 12_480),
        ("Encoder block × 9", "65 tokens × 192", 4_003_776),
        ("Final LayerNorm", "65 tokens × 192", 384),
        ("Class token", "192", 0),
        ("Head", "10 logits", 1_930),
        ("Classes", "", 0),
    ]
    assert described.parts[1].lines == ("4 × 4 pixels each: linear, 48 → 192",)
    assert described.parts[5].lines == ("pre-norm", "444,864 parameters each")
    attention, mlp = described.block
    names = ["LayerNorm", "Queries, keys, values", "Self-attention", "Projection"]
    assert [part.name for part in attention.parts] == names
    assert [part.output for part in attention.parts] == [
        "65 tokens × 192",
        "65 tokens × 3 × 8 × 24",
        "65 tokens × 8 × 24",
        "65 tokens × 192",
    ]
    assert attention.parts[2].lines == ("8 heads of width 24", "softmax(Q Kᵀ / √24) V")
    assert attention.shortcut is None
    assert [part.lines for part in mlp.parts[1:]] == [
        ("linear, 192 → 768, GELU",),
        ("linear, 768 → 192",),
    ]
    (note,) = described.notes
    assert "dropout on attention weights 0.1" in note and "depth" not in note


def test_settings_change_the_drawing():
    described, _ = describe("vit_128x6_post_norm", depth=2, activation="relu")
    attention, norm1, mlp, norm2 = described.block
    assert norm1.name == norm2.name == "LayerNorm"
    assert attention.parts[0].name == "Queries, keys, values"
    assert mlp.parts[0].lines == ("linear, 128 → 512, ReLU",)
    assert described.block_title == "Encoder block, post-norm"
    assert "Final LayerNorm" not in by_name(described.parts)

    described, _ = describe(
        "vit",
        depth=2,
        num_registers=3,
        qkv_bias=False,
        qk_norm=True,
        local_attention=True,
        layer_scale=0.1,
        position_embedding="sinusoidal_2d",
        pooling="mean",
    )
    parts = by_name(described.parts)
    assert parts["Registers"].output == "67 tokens × 192"
    assert parts["Positions"].lines == ("sines and cosines of row and column, added",)
    assert parts["Mean pooling"].num_params == parts["Positions"].num_params == 0
    opened = by_name(described.block[0].parts)
    assert opened["Queries, keys, values"].lines == (
        "linear, 192 → 3 × 3 × 64, no bias",
        "LayerNorm on queries and keys",
    )
    assert "learned factor" in opened["Self-attention"].lines[1]
    assert opened["Self-attention"].num_params == 3
    assert opened["LayerScale"].lines == ("one factor per channel, from 0.1",)
    assert described.notes == ()


@pytest.mark.parametrize(
    "name, words",
    [("gelu", "GELU"), ("gelu_tanh", "GELU (tanh)"), ("relu", "ReLU")],
)
def test_every_activation_is_named(name, words):
    described, _ = describe("vit", depth=1, activation=name)
    assert described.block[-1].parts[1].lines[-1].endswith(f"→ 768, {words}")
    assert name in FIELDS["model.activation"].allowed


def test_a_distillation_token_has_a_head():
    described, _ = describe("vit", depth=1, distillation_token=True)
    parts = by_name(described.parts)
    assert parts["Distillation token"].output == "66 tokens × 192"
    assert parts["Positions"].num_params == 66 * 192
    assert parts["Class and distillation token"].output == "2 tokens × 192"
    assert parts["Two heads"].lines == ("linear, 192 → 10 each", "their mean")
    assert parts["Two heads"].num_params == 2 * 1_930


def test_a_convolutional_stem_layer_by_layer():
    stem = {"depth": 1, "stem": "conv", "stem_channels": (64,), "patch_size": 2}
    described, _ = describe("vit", **stem, stem_downsampling="stride")
    assert [(p.lines, p.output) for p in described.parts[1:3]] == [
        (("3 → 64 channels", "ReLU"), "32 × 32 × 64"),
        (("64 → 192 channels, stride 2", "ReLU"), "16 × 16 × 192"),
    ]
    described, _ = describe("vit", **stem, stem_downsampling="max_pool")
    assert [(p.name, p.output) for p in described.parts[1:4]] == [
        ("3 × 3 convolution", "32 × 32 × 64"),
        ("3 × 3 convolution", "32 × 32 × 192"),
        ("3 × 3 max pooling", "16 × 16 × 192"),
    ]
    normalised = {"stem_norm": "batch", "stem_downsampling": "avg_pool"}
    described, _ = describe("vit", **(stem | normalised))
    assert [(p.name, p.lines, p.output) for p in described.parts[1:4]] == [
        ("3 × 3 convolution", ("3 → 64 channels", "BatchNorm, ReLU"), "32 × 32 × 64"),
        ("2 × 2 average pooling", ("stride 2",), "16 × 16 × 64"),
        ("1 × 1 convolution", ("64 → 192 channels",), "16 × 16 × 192"),
    ]


def test_a_resnet_stage_by_stage():
    described, _ = describe("resnet18")
    assert [(p.name, p.output, p.num_params) for p in described.parts] == [
        ("Image", "32 × 32 × 3", 0),
        ("3 × 3 convolution", "32 × 32 × 64", 1_856),
        ("Stage 1: residual block × 2", "32 × 32 × 64", 147_968),
        ("Stage 2: residual block × 2", "16 × 16 × 128", 525_568),
        ("Stage 3: residual block × 2", "8 × 8 × 256", 2_099_712),
        ("Stage 4: residual block × 2", "4 × 4 × 512", 8_393_728),
        ("Global average pooling", "512", 0),
        ("Head", "10 logits", 5_130),
        ("Classes", "", 0),
    ]
    assert described.parts[described.opened].name.startswith("Stage 2")
    branch, relu = described.block
    assert [part.lines for part in branch.parts] == [
        ("64 → 128 channels, stride 2", "BatchNorm, ReLU"),
        ("128 → 128 channels", "BatchNorm"),
    ]
    assert branch.shortcut.lines == ("64 → 128 channels, stride 2", "BatchNorm")
    assert branch.shortcut.name == "1 × 1 convolution" and relu.name == "ReLU"
    # A first stage needs no projection.
    model = models.ResNet(num_classes=3, stage_sizes=(1,), width=8)
    described = describe_architecture(model, (8, 8, 1))
    assert described.block[0].shortcut is None
    assert described.parts[-2].output == "3 logits"
