"""Where and how often dropout acts, and how its masks are drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from jax.sharding import NamedSharding, PartitionSpec

from tests.models.shapes import random_variables
from vit_jax.models import ViT
from vit_jax.models.dropout import Dropout, random_mask


def record_dropouts(model, images):
    """{path of every nn.Dropout: (input, output)} of one training pass."""
    record, variables = {}, random_variables(model, images.shape[1:])

    def intercept(next_fun, args, kwargs, context):
        output = next_fun(*args, **kwargs)
        is_call = context.method_name == "__call__"
        if is_call and isinstance(context.module, nn.Dropout):
            record["/".join(context.module.path)] = np.array(args[0]), np.array(output)
        return output

    with nn.intercept_methods(intercept):
        _, state = model.apply(
            variables, images, train=True,
            rngs={"dropout": jax.random.key(1)}, mutable=["intermediates"],
        )  # fmt: skip
    return record, state["intermediates"]


@pytest.fixture(scope="module")
def dropouts():
    model = ViT(
        5, width=8, depth=3, num_heads=2, activation="relu", dropout=0.1,
        embedding_dropout=0.2, attention_dropout=0.3, mlp_output_dropout=0.4,
        drop_path=0.5,
    )  # fmt: skip
    return record_dropouts(model, jax.random.normal(jax.random.key(2), (600, 8, 8, 3)))


@pytest.mark.slow
def test_every_dropout_acts_at_its_rate(dropouts):
    record, sown = dropouts
    expected = {"embedding_dropout": 0.2}
    for i, drop_path in enumerate([0.0, 0.25, 0.5]):
        expected |= {
            f"block{i}/attention/Dropout_0": 0.3,
            f"block{i}/attention/Dropout_1": 0.1,
            f"block{i}/mlp/Dropout_0": 0.1,
            # What dropout=0.1 and then mlp_output_dropout=0.4 keep.
            f"block{i}/mlp/Dropout_1": 0.46,
            f"block{i}/branch_scale1/Dropout_0": drop_path,
            f"block{i}/branch_scale2/Dropout_0": drop_path,
        }
    assert set(record) == set(expected)
    for path, rate in expected.items():
        before, after = record[path]
        drawn = before != 0
        kept = drawn & (after != 0)
        # Five standard deviations; stochastic depth draws once for each example.
        draws = len(before) if "branch_scale" in path else drawn.sum()
        tolerance = 5 * np.sqrt(rate * (1 - rate) / draws)
        assert 1 - kept.sum() / drawn.sum() == pytest.approx(rate, abs=tolerance), path
        rounded = round(rate * 2**16) / 2**16
        np.testing.assert_allclose(after[kept], before[kept] / (1 - rounded), rtol=1e-6)
    np.testing.assert_array_equal(
        record["block1/attention/Dropout_0"][0],
        sown["block1"]["attention"]["attention"][0],
    )


@pytest.mark.slow
def test_stochastic_depth_drops_whole_examples(dropouts):
    for path, (before, after) in dropouts[0].items():
        if "branch_scale" in path:
            for example_before, example_after in zip(before, after, strict=True):
                dropped = example_after[example_before != 0] == 0
                assert dropped.all() or not dropped.any()


@pytest.mark.slow
def test_mask_elements_are_independent_and_of_16_bits():
    """Also at rates near 0 and 1, which the bits that a row shares decide."""
    key = jax.random.key(5)
    # 25.6 of 256 levels of the bits that an element does not share.
    num_dropped = round(0.1 * 2**16)
    keep = np.asarray(random_mask(key, (40_000, 10), num_dropped))
    assert keep.shape == (40_000, 10)
    centred = keep - (1 - num_dropped / 2**16)
    # A standard deviation of 0.3 / sqrt(400,000).
    assert abs(centred.mean()) < 5 * 0.3 / 632
    covariance = centred.T @ centred / len(keep)
    np.testing.assert_allclose(covariance, 0.09 * np.eye(10), atol=5 * 0.24 / 200)
    # One element in 2**16 is expected, so there are some and few.
    for num_dropped, of_one in ((1, False), (2**16 - 1, True)):
        rare = random_mask(key, (1000, 1000), num_dropped) == of_one
        assert 1 <= rare.sum() <= 40
    layer = Dropout(1 - 1e-7, deterministic=False)
    out = layer.apply({}, jnp.ones((8, 8)), rngs={"dropout": key})
    assert np.isfinite(out).all()


def test_mask_does_not_depend_on_the_number_of_devices():
    def draw(num_devices):
        mesh = jax.make_mesh(
            (num_devices,), ("batch",), devices=jax.devices()[:num_devices]
        )
        out = NamedSharding(mesh, PartitionSpec("batch"))
        draw = jax.jit(
            lambda key: random_mask(key, (8, 3, 5), 2**15), out_shardings=out
        )
        return np.asarray(draw(jax.random.key(6)))

    np.testing.assert_array_equal(draw(1), draw(8))


@pytest.mark.slow
def test_nothing_is_dropped_outside_training():
    sizes = {"num_classes": 5, "width": 8, "depth": 2, "num_heads": 2}
    images = jax.random.normal(jax.random.key(0), (2, 8, 8, 3))
    plain = ViT(**sizes)
    noisy = ViT(
        **sizes, dropout=0.5, embedding_dropout=0.5, attention_dropout=0.5,
        mlp_output_dropout=0.5, drop_path=0.5,
    )  # fmt: skip
    variables = random_variables(plain, (8, 8, 3))
    np.testing.assert_array_equal(
        plain.apply(variables, images), noisy.apply(variables, images, train=False)
    )
