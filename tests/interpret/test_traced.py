"""Shapes and parameters of a network, traced without computing anything."""

import numpy as np
import pytest

from vit_jax import models
from vit_jax.interpret import traced
from vit_jax.models import backend

VIT = models.ViT(num_classes=5, width=8, depth=2, num_heads=2, patch_size=4)


def test_shapes_are_those_of_one_image():
    found = traced.Traced(VIT, (8, 12, 3))
    assert found.inputs[""] == (8, 12, 3) and found.outputs[""] == (5,)
    assert found.inputs["block1/attention/qkv"] == (7, 8)
    assert found.outputs["block1/attention/qkv"] == (7, 3, 2, 4)
    assert found.outputs["head"] == (5,)
    assert found.kernel("stem/projection") == (4, 4, 3, 8)
    assert traced.image_part(found).output == "8 × 12 × 3"


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_an_accelerator_traces_the_same(platform):
    """On a GPU, a dense layer of a pre-norm ViT takes over the norm before it."""
    with backend.computing_for(platform):
        found = traced.Traced(VIT, (8, 12, 3))
    here = traced.Traced(VIT, (8, 12, 3))
    assert (found.inputs, found.outputs) == (here.inputs, here.outputs)
    assert found.outputs["block0/norm1"] == (7, 8)
    assert found.count("block0/norm1") == here.count("block0/norm1") == 2 * 8


def test_parameters_are_counted_below_paths():
    found = traced.Traced(VIT, (8, 12, 3))
    assert found.count("head") == 8 * 5 + 5
    attention = 4 * (8 * 8 + 8)
    assert found.count("block0/attention", "head") == attention + 45
    assert found.count("no/such/layer") == 0
    head, classes = traced.head_parts(found)
    assert (head.lines, head.output) == (("linear, 8 → 5",), "5 logits")
    assert head.num_params == 45 and classes.lines == ("softmax: 5 probabilities",)


def test_a_convolution_is_described_by_its_shapes():
    model = models.ResNet(num_classes=3, stage_sizes=(1, 1), width=4)
    found = traced.Traced(model, (8, 8, 3))
    block = "stage2_block1"
    part = traced.convolution_part(
        found, f"{block}/conv1", norm=f"{block}/norm1", after="ReLU"
    )
    assert part.name == "3 × 3 convolution" and part.output == "4 × 4 × 8"
    assert part.lines == ("4 → 8 channels, stride 2", "BatchNorm, ReLU")
    assert part.num_params == np.prod((3, 3, 4, 8)) + 2 * 8
    assert traced.tokens((65, 192)) == "65 tokens × 192"
