"""Memory from shapes alone, and what is said where it does not fit."""

import jax
import pytest

from vit_jax import models
from vit_jax.errors import UserError
from vit_jax.models import memory

SHAPE = (8, 8, 3)


@pytest.mark.slow
def test_layers_outputs_grow_with_the_depth():
    small = {"patch_size": 4, "width": 16, "num_heads": 2, "num_classes": 4}
    sizes = []
    for depth in (1, 2, 3):
        model = models.ViT(depth=depth, **small)
        variables = models.init_variables(model, jax.random.key(0), SHAPE)
        sizes.append(sum(memory.activation_bytes(model, variables, SHAPE)))
    assert sizes[0] > 0 and sizes[2] - sizes[1] == sizes[1] - sizes[0] > 0


def test_the_largest_need_is_named():
    needs = {"parameters": 10**9, "a batch": 3 * 10**9}
    memory.require_memory(needs, None)
    memory.require_memory(needs, 4 * 10**9)
    with pytest.raises(UserError, match=r"4\.0 GB .* 3\.0 GB are for a batch"):
        memory.require_memory(needs, 2 * 10**9)
