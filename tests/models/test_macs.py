"""Multiply-accumulates against what is traced, a count by hand, and XLA."""

import math

import jax
import jax.numpy as jnp
import pytest
from flax import linen as nn

from tests.models.shapes import CIFAR, make, shapes_of
from vit_jax import models


def count_products(jaxpr):
    """Multiply-accumulates of every matrix product and convolution that JAX traced."""
    total = 0
    for eqn in jaxpr.eqns:
        out = eqn.outvars[0].aval
        if eqn.primitive.name == "dot_general":
            left = eqn.invars[0].aval
            contracted = eqn.params["dimension_numbers"][0][0]
            total += out.size * math.prod(left.shape[i] for i in contracted)
        elif eqn.primitive.name == "conv_general_dilated":
            kernel = eqn.invars[1].aval
            total += out.size * kernel.size // kernel.shape[-1]
        for value in eqn.params.values():
            if hasattr(value, "jaxpr"):
                total += count_products(value.jaxpr)
    return total


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("vit_ti", {}),
        ("cct_7", {}),
        ("vit", {"depth": 2, "stem": "shifted_patch", "patch_size": 8}),
        ("vit", {"depth": 2, "pooling": "mean", "num_registers": 3, "mlp_ratio": 1.5}),
        ("vit", {"depth": 1, "stem": "conv", "stem_channels": (8, 16),
                 "stem_downsampling": "stride"}),
        ("vit", {"depth": 1, "distillation_token": True, "num_registers": 1}),
        ("vit", {"depth": 1, "stem": "conv", "stem_channels": (8, 16, 32),
                 "patch_size": 8}),
        ("vit", {"depth": 1, "stem": "conv", "stem_channels": (8, 8, 16, 16, 32, 32),
                 "patch_size": 8, "stem_norm": "batch",
                 "stem_downsampling": "avg_pool"}),
        ("resnet18", {}),
        ("resnet50", {"width": 16}),
    ],
)  # fmt: skip
def test_count_macs_is_what_is_traced(name, settings):
    model = make(name, **settings)
    images = jnp.zeros((1, *CIFAR))
    traced = jax.make_jaxpr(model.apply)(shapes_of(model), images)
    assert models.count_macs(model, CIFAR) == count_products(traced.jaxpr)


def test_count_macs_of_an_autoencoder_counts_what_is_encoded():
    model = models.make_model(
        {"name": "vit", "depth": 2, "num_registers": 3, "mlp_ratio": 2.0},
        num_classes=10, image_shape=CIFAR, dtype="float32",
        config_mae={"decoder_width": 48, "decoder_depth": 3, "decoder_heads": 2},
    )  # fmt: skip
    images, visible = jnp.zeros((1, *CIFAR)), jnp.zeros((1, 16), int)
    traced = jax.make_jaxpr(model.apply)(shapes_of(model), images, visible)
    assert models.count_macs(model, CIFAR) == count_products(traced.jaxpr)


def test_count_macs_by_hand():
    assert models.count_macs(make("vit_ti"), CIFAR) == 365_107_584
    assert models.count_macs(make("resnet18"), CIFAR) == 555_422_720
    assert models.count_macs(make("resnet18"), (25, 25, 3)) == (
        625 * 27 * 64 + 625 * 4 * 9 * 64**2
        + 169 * (9 * (64 * 128 + 3 * 128**2) + 64 * 128)
        + 49 * (9 * (128 * 256 + 3 * 256**2) + 128 * 256)
        + 16 * (9 * (256 * 512 + 3 * 512**2) + 256 * 512)
        + 5120
    )  # fmt: skip


@pytest.mark.parametrize("analysis", [None, {}, {"bytes accessed": 3.0}])
def test_without_a_count_by_xla_there_is_none(analysis, monkeypatch):
    """As on a device whose backend does not analyse what a program costs."""

    class Sum(nn.Module):
        @nn.compact
        def __call__(self, images, *, train=False):
            return images.sum((1, 2))

    assert models.count_macs(Sum(), CIFAR) > 0
    monkeypatch.setattr(jax.stages.Lowered, "cost_analysis", lambda self: analysis)
    assert models.count_macs(Sum(), CIFAR) is None


# XLA also counts element-wise operations and leaves out products with zero padding,
# which is why the ResNet is asked about larger images.
@pytest.mark.parametrize(
    ("name", "image_shape"), [("vit_ti", CIFAR), ("resnet18", (256, 256, 3))]
)
def test_count_macs_agrees_with_xla(name, image_shape):
    model = make(name, image_shape)
    images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    lowered = jax.jit(model.apply).lower(shapes_of(model, image_shape), images)
    flops = lowered.cost_analysis()["flops"]
    assert flops / 2 == pytest.approx(models.count_macs(model, image_shape), rel=0.065)
