"""Suggestions and lists in messages."""

import pytest

from vit_jax.errors import did_you_mean, shorten


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


def test_some_names_are_shown_and_the_others_counted():
    assert shorten(["a", "b", "c", "d"], 4) == "a, b, c, d"
    assert shorten(["a", "b", "c", "d", "e", "f"], 4) == "a, b, c, d and 2 more"
