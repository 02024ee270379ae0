"""The description of a ResNet."""

from tests.interpret.descriptions import describe
from vit_jax import models
from vit_jax.interpret.architecture import describe_architecture


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
