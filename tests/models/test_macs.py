"""Multiply-accumulates: counts by hand, and XLA's."""

import jax
import jax.numpy as jnp
import pytest
from flax import linen as nn

from tests.models.shapes import CIFAR, make, shapes_of
from vit_jax import models


@pytest.mark.parametrize(
    ("name", "settings", "macs"),
    [
        ("vit_ti", {}, 365_107_584),
        ("vit", {"depth": 2, "stem": "shifted_patch", "patch_size": 8}, 18_213_504),
        ("vit", {"depth": 2, "pooling": "mean", "num_registers": 3, "mlp_ratio": 1.5},
         38_617_728),
        ("vit", {"depth": 1, "attention_implementation": "cudnn", "dtype": "bfloat16",
                 "distillation_token": True, "num_registers": 1}, 31_956_096),
        ("vit", {"depth": 1, "stem": "conv", "stem_channels": (8, 8, 16, 16, 32, 32),
                 "patch_size": 8, "stem_norm": "batch",
                 "stem_downsampling": "avg_pool"}, 10_311_936),
        ("resnet18", {}, 555_422_720),
        ("resnet50", {"width": 16}, 81_449_984),
    ],
)  # fmt: skip
def test_count_macs_by_hand(name, settings, macs):
    assert models.count_macs(make(name, **settings), CIFAR) == macs


def test_count_macs_of_an_autoencoder_counts_what_is_encoded():
    decoder = {"decoder_width": 48, "decoder_depth": 3, "decoder_heads": 2}
    settings = {"depth": 2, "num_registers": 3, "mlp_ratio": 2.0}
    model = make("vit", **settings, mae=decoder)
    assert models.count_macs(model, CIFAR) == 17_808_672


def test_count_macs_of_sides_that_do_not_halve():
    assert models.count_macs(make("resnet18"), (25, 25, 3)) == (
        625 * 27 * 64 + 625 * 4 * 9 * 64**2
        + 169 * (9 * (64 * 128 + 3 * 128**2) + 64 * 128)
        + 49 * (9 * (128 * 256 + 3 * 256**2) + 128 * 256)
        + 16 * (9 * (256 * 512 + 3 * 512**2) + 256 * 512)
        + 5120
    )  # fmt: skip


def test_what_has_no_result_counts_nothing():
    class Printing(nn.Module):
        def __call__(self, images, *, train=False):
            jax.debug.print("{}", images.mean())
            return images @ jnp.ones((3, 2))

    assert models.count_macs(Printing(), CIFAR) == 32 * 32 * 3 * 2


def test_a_loop_counts_as_often_as_it_runs():
    class Loop(nn.Module):
        @nn.compact
        def __call__(self, images, *, train=False):
            kernel = self.param("kernel", nn.initializers.zeros, (3, 3))
            step = lambda x, _: (x @ kernel, None)  # noqa: E731
            return jax.lax.scan(step, images, length=5)[0]

    assert models.count_macs(Loop(), CIFAR) == 5 * 32 * 32 * 3 * 3


# XLA also counts element-wise operations and leaves out products with zero padding,
# which is why the ResNet is asked about larger images.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "image_shape"), [("vit_ti", CIFAR), ("resnet18", (256, 256, 3))]
)
def test_count_macs_agrees_with_xla(name, image_shape):
    model = make(name, image_shape)
    images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    lowered = jax.jit(model.apply).lower(shapes_of(model, image_shape), images)
    flops = lowered.cost_analysis()["flops"]
    assert flops / 2 == pytest.approx(models.count_macs(model, image_shape), rel=0.065)
