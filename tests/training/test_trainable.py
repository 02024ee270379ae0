import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.errors import UserError
from vit_jax.training import trainable

PARAMS = {
    "stem": {"projection": {"kernel": jnp.ones(3)}},
    "positions": jnp.ones(2),
    "block0": {"mlp": {"out": {"bias": jnp.ones(2)}}},
    "block1": {"mlp": {"out": {"bias": jnp.ones(2)}}},
    "final_norm": {"scale": jnp.ones(2)},
    "head": {"kernel": jnp.ones(2), "bias": jnp.ones(1)},
}
HEAD = {"head/kernel", "head/bias"}
LAST = HEAD | {"final_norm/scale", "block1/mlp/out/bias"}
ALL = LAST | {"stem/projection/kernel", "positions", "block0/mlp/out/bias"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("all", ALL),
        ("head", HEAD),
        ("last 1 block", LAST),
        ("last 2 blocks", LAST | {"block0/mlp/out/bias"}),
        ("block[01]/mlp", {"block0/mlp/out/bias", "block1/mlp/out/bias"}),
    ],
)
def test_parts_of_a_model(text, names):
    assert trainable.trainable_names(PARAMS, text) == names


DENSE = {"dense": {"kernel": jnp.ones(2)}}


@pytest.mark.parametrize(
    ("params", "text", "words"),
    [
        (PARAMS, "last 3 blocks", "has 2 blocks"),
        (PARAMS, "last 0 blocks", "give 1 to 2"),
        (PARAMS, "haed", "give all, head, .* with final_norm, head, pos.*, block0, bl"),
        (PARAMS, "last block", 'give all, head, "last 2 blocks"'),
        (PARAMS, "block[", "no regular expression"),
        (DENSE, "head", "which begin with dense"),
        (DENSE, "last 1 block", "no blocks; give a reg"),
        ({"block0": DENSE}, "last 2 blocks", "has one block, block0; give 1, or a reg"),
    ],
)
def test_a_part_without_parameters_is_refused(params, text, words):
    with pytest.raises(UserError, match=words):
        trainable.trainable_names(params, text)


def test_split_and_merge():
    inside, outside = trainable.split(PARAMS, frozenset(LAST))
    assert set(inside) == {"block1", "final_norm", "head"}
    assert set(outside) == {"stem", "positions", "block0"}
    merged = trainable.merge(inside, outside)
    assert trainable.trainable_names(merged, "all") == ALL
    assert (
        merged["block0"]["mlp"]["out"]["bias"] is PARAMS["block0"]["mlp"]["out"]["bias"]
    )
    whole, nothing = trainable.split(PARAMS, None)
    assert whole is PARAMS and nothing == {} and trainable.merge(whole, {}) is PARAMS


def test_a_norm_is_frozen_if_all_of_its_parameters_are():
    stats = {"a": {"norm": {"mean": 0, "var": 1}}, "b": {"mean": 0, "var": 1}}
    params = {
        "a": {"norm": {"scale": 1, "bias": 0}, "conv": {"kernel": 1}},
        "b": {"scale": 1, "bias": 0},
    }
    parts = trainable.split(params, frozenset({"b/scale", "b/bias"}))
    marks = trainable.frozen_norms(stats, *parts)
    assert set(marks) == {"a"} and set(marks["a"]["norm"]) == {"statistics"}
    parts = trainable.split(params, frozenset({"a/norm/bias", "b/bias"}))
    assert trainable.frozen_norms(stats, *parts) == {}
    assert trainable.frozen_norms(stats, params, {}) == {}


@pytest.mark.parametrize("part", ["all", "last 1 block", "head|block0"])
def test_each_layer_has_its_fraction_of_the_rate(part):
    names = trainable.trainable_names(PARAMS, part)
    updates, _ = trainable.split(PARAMS, names)
    scaled = trainable.scale_by_layer(updates, 0.5, depth=2)
    expected = {"stem": 0.125, "positions": 0.125, "block0": 0.25, "block1": 0.5,
                "final_norm": 1.0, "head": 1.0}  # fmt: skip
    assert set(scaled) == set(updates)
    for name, tree in scaled.items():
        for leaf in tree.values() if isinstance(tree, dict) else [tree]:
            while isinstance(leaf, dict):
                (leaf,) = leaf.values()
            np.testing.assert_array_equal(leaf, expected[name])


def test_the_decoder_of_an_autoencoder_comes_after_the_blocks():
    params = {name: PARAMS[name] for name in ("stem", "block0", "block1")}
    params["decoder"] = {"pixels": {"kernel": jnp.ones(2)}}
    names = {"block1/mlp/out/bias", "decoder/pixels/kernel"}
    assert trainable.trainable_names(params, "last 1 block") == names
    scaled = trainable.scale_by_layer(params, 0.5, depth=2)
    np.testing.assert_array_equal(scaled["decoder"]["pixels"]["kernel"], 1.0)
