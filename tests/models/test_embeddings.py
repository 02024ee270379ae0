"""Stems and fixed positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from vit_jax.models.embeddings import (
    ConvStem,
    shift_diagonally,
    sinusoidal_1d,
    sinusoidal_2d,
)


def test_shifted_patches_show_the_right_pixels():
    image = jnp.arange(1.0, 10.0).reshape(1, 3, 3, 1)
    views = shift_diagonally(image, 1)[0].transpose(2, 0, 1)
    np.testing.assert_array_equal(
        views,
        [
            [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
            [[5, 6, 0], [8, 9, 0], [0, 0, 0]],  # left and up
            [[0, 4, 5], [0, 7, 8], [0, 0, 0]],  # right and up
            [[0, 0, 0], [2, 3, 0], [5, 6, 0]],  # left and down
            [[0, 0, 0], [0, 1, 2], [0, 4, 5]],  # right and down
        ],
    )


def conv_shapes(stem):
    """Output shapes of the convolutions by name, of the stem, and its variables."""
    images = jnp.zeros((1, 32, 32, 3))
    outputs = {}

    def intercept(next_fun, args, kwargs, context):
        output = next_fun(*args, **kwargs)
        if isinstance(context.module, nn.Conv):
            outputs[context.module.name] = output.shape
        return output

    with nn.intercept_methods(intercept):
        tokens, variables = jax.eval_shape(
            lambda: stem.init_with_output(jax.random.key(0), images, train=False)
        )
    return outputs, tokens.shape, variables


@pytest.mark.parametrize(
    ("channels", "patch_size", "downsampling", "sides"),
    [
        ((16,), 2, "max_pool", [32]),  # CCT-7/3x1: 256 tokens of a 32x32 image
        ((8, 16), 4, "max_pool", [32, 16]),
        ((8, 16), 4, "avg_pool", [32, 16]),
        ((8, 16, 24), 4, "stride", [32, 16, 8]),
        ((8, 16), 1, "stride", [32, 32]),
    ],
)
def test_the_last_layer_of_each_stage_halves(channels, patch_size, downsampling, sides):
    stem = ConvStem(channels[-1], channels[:-1], patch_size, downsampling)
    outputs, tokens, variables = conv_shapes(stem)
    side = 32 // patch_size
    assert tokens == (1, side, side, channels[-1])
    expected = {
        f"conv{i}": (1, size, size, channels[i]) for i, size in enumerate(sides)
    }
    assert outputs == expected
    assert all(set(layer) == {"kernel"} for layer in variables["params"].values())


def test_a_normalised_stem_of_two_layers_a_stage():
    stem = ConvStem(24, (4, 4, 8, 8, 16, 16), 8, "avg_pool", norm="batch")
    outputs, tokens, variables = conv_shapes(stem)
    sides, channels = (32, 32, 16, 16, 8, 8), stem.channels
    assert outputs == {
        **{f"conv{i}": (1, n, n, channels[i]) for i, n in enumerate(sides)},
        "projection": (1, 4, 4, 24),
    }
    assert tokens == (1, 4, 4, 24)
    assert set(variables["batch_stats"]) == {f"norm{i}" for i in range(6)}


def test_a_normalised_stem_follows_the_batches_that_it_trains_on():
    """What it computes is compared in test_torch, and its norm in test_norms."""
    stem = ConvStem(6, (4, 5), 4, "avg_pool", norm="batch")
    images = jax.random.normal(jax.random.key(0), (3, 8, 8, 3))
    variables = stem.init(jax.random.key(1), images, train=False)
    for train in (False, True):
        _, state = stem.apply(variables, images, train=train, mutable=["batch_stats"])
        after = jax.tree.leaves(state["batch_stats"])
        before = jax.tree.leaves(variables["batch_stats"])
        changed = [bool((x != y).any()) for x, y in zip(before, after, strict=True)]
        assert changed == 4 * [train]


def test_sinusoidal_positions_follow_the_formula():
    table = sinusoidal_1d(65, 12)
    assert table.dtype == np.float32
    for position, channel in [(0, 0), (0, 1), (64, 0), (17, 5), (64, 11)]:
        angle = position / 10000 ** (2 * (channel // 2) / 12)
        value = np.cos(angle) if channel % 2 else np.sin(angle)
        assert table[position, channel] == pytest.approx(value, abs=1e-6)

    grid = sinusoidal_2d(3, 5, 8).reshape(3, 5, 8)
    for row, column in np.ndindex(3, 5):
        np.testing.assert_array_equal(grid[row, column, :4], sinusoidal_1d(3, 4)[row])
        np.testing.assert_array_equal(
            grid[row, column, 4:], sinusoidal_1d(5, 4)[column]
        )
