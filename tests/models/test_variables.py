"""Initial values of models, and their shapes without a computation."""

import functools

import jax
import numpy as np
import pytest

from tests.models.shapes import CIFAR, make
from tests.rows import slow
from vit_jax import models

VIT = functools.partial(make, "vit", width=16, num_heads=2, depth=1)


@pytest.mark.parametrize(
    "model",
    [
        VIT(pooling="cls"),
        slow(VIT(distillation_token=True, dropout=0.1)),
        slow(VIT(attention_implementation="xla")),
        slow(VIT(local_attention=True)),
        models.ResNet(num_classes=2, width=2, stage_sizes=(1,)),
    ],
    ids=["cls", "distillation", "xla", "local", "resnet"],
)
def test_shapes_are_those_of_the_initial_values(model):
    shapes = models.variable_shapes(model, CIFAR)
    variables = models.init_variables(model, jax.random.key(0), CIFAR)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), variables) == jax.tree.map(
        lambda x: (x.shape, x.dtype), shapes
    )
    counted = models.count_params(shapes["params"])
    assert counted == models.count_params(variables["params"])


@pytest.mark.slow
def test_init_is_a_function_of_the_key():
    model = models.ResNet(num_classes=2, width=2, stage_sizes=())
    first, same, other = (
        models.init_variables(model, jax.random.key(seed), CIFAR) for seed in (0, 0, 1)
    )
    kernels = [v["params"]["stem_conv"]["kernel"] for v in (first, same, other)]
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert np.any(kernels[0] != kernels[2])
