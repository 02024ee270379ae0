"""Memory from shapes alone, and what is said where it does not fit."""

import jax.numpy as jnp
import pytest

from vit_jax import models
from vit_jax.errors import UserError
from vit_jax.models import backend, memory

SHAPE = (8, 8, 3)


@pytest.mark.slow
def test_layers_outputs_grow_with_the_depth():
    small = {"patch_size": 4, "width": 16, "num_heads": 2, "num_classes": 4}
    sizes = []
    for depth in (1, 2, 3):
        model = models.ViT(depth=depth, **small)
        sizes.append(sum(memory.activation_bytes(model, SHAPE)))
    assert sizes[0] > 0 and sizes[2] - sizes[1] == sizes[1] - sizes[0] > 0


def test_attention_weights_count_where_they_are_stored():
    small = {"patch_size": 1, "width": 32, "num_heads": 2, "num_classes": 4, "depth": 1}

    def largest(**settings):
        model = models.ViT(**small | settings)
        return max(memory.activation_bytes(model, (16, 16, 3)))

    plain = largest()
    assert plain == 4 * 2 * 257**2
    with backend.computing_for("gpu", "9.0"):
        short = {"dtype": jnp.bfloat16}
        assert largest(**short) == plain // 2
        assert largest(**short, attention_implementation="xla") == plain // 2
        assert largest(**short, attention_implementation="cudnn") < plain // 8


def test_the_largest_need_is_named():
    needs = {"parameters": 10**9, "a batch": 3 * 10**9}
    memory.require_memory(needs, None)
    memory.require_memory(needs, 4 * 10**9)
    with pytest.raises(UserError, match=r"4\.0 GB .* 3\.0 GB are for a batch"):
        memory.require_memory(needs, 2 * 10**9)


@pytest.mark.parametrize(
    "batch_size, words",
    [(1, "one image"), (3, r"images to score \(config.eval_batch_size\)")],
)
def test_an_evaluation_counts_its_images_and_the_largest_output(batch_size, words):
    model = models.ResNet(num_classes=2, width=8, stage_sizes=())
    options = {"batch_size": batch_size, "kept": {"parameters": 100}}
    # An image has 192 bytes; 8 channels of the stem are the largest output.
    needed = 100 + batch_size * (192 + 4 * 8 * 64)
    arguments = (model, SHAPE, SHAPE)
    memory.require_memory_to_score(*arguments, free=needed, **options)
    with pytest.raises(UserError, match=f"are for the largest output for {words}"):
        memory.require_memory_to_score(*arguments, free=needed - 1, **options)
