"""Suggestions in messages."""

import pytest

from vit_jax.errors import did_you_mean


@pytest.mark.parametrize(
    "name, suggestion",
    [
        ("modle.depth", ' (did you mean "model.depth"?)'),
        ("depth", ' (did you mean "model.depth"?)'),
        ("optim.depth", ' (did you mean "model.depth"?)'),
        ("xyz", ""),
    ],
)
def test_the_most_similar_name_is_suggested(name, suggestion):
    assert (
        did_you_mean(name, iter(["seed", "model.depth", "model.width"])) == suggestion
    )
