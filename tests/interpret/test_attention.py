"""Attention weights, rollout and distances, by hand and of untrained models."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from tests.interpret.untrained import IMAGES, make_run
from vit_jax.interpret import attention


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["cls", "mean", "sequence"])
def test_asking_for_attention_changes_no_logit(pooling):
    run = make_run(pooling=pooling, num_registers=1)
    apply = jax.jit(functools.partial(run.model.apply, train=False))
    plain = apply(run.variables, run.normalize(IMAGES))
    logits, weights, _ = attention.forward_with_attention(
        run.variables, run.normalize(IMAGES), run.model
    )
    # Two programs, which may round differently in the last bits.
    np.testing.assert_allclose(logits, plain, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.slow
def test_maps_start_from_what_the_head_sees():
    seen = attention.read_attention(make_run(pooling="cls", num_registers=1), IMAGES)
    assert seen.weights.shape == (3, 2, 2, 6, 6) and seen.grid == (2, 2)
    expected = seen.weights[..., 0, 1:5].reshape(3, 2, 2, 2, 2)
    np.testing.assert_allclose(seen.maps(), expected)

    seen = attention.read_attention(make_run(pooling="mean", num_registers=1), IMAGES)
    expected = seen.weights[..., :4, :4].mean(axis=-2).reshape(3, 2, 2, 2, 2)
    np.testing.assert_allclose(seen.maps(), expected, rtol=1e-5)

    seen = attention.read_attention(make_run(distillation_token=True), IMAGES)
    assert seen.weights.shape == (3, 2, 2, 6, 6) and seen.patches == slice(2, 6)
    expected = seen.weights[..., :2, 2:].mean(axis=-2).reshape(3, 2, 2, 2, 2)
    np.testing.assert_allclose(seen.maps(), expected, rtol=1e-5)

    run = make_run(pooling="sequence", final_norm=False)
    seen = attention.read_attention(run, IMAGES)
    np.testing.assert_allclose(seen.readout.sum(axis=1), 1, rtol=1e-5)
    assert np.ptp(seen.readout, axis=1).min() > 1e-3


def test_rollout_by_hand():
    first = [[0.5, 0.5, 0.0], [0.2, 0.6, 0.2], [0.0, 1.0, 0.0]]
    second = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.5, 0.25, 0.25]]
    weights = np.array([[first], [second]])
    # (A + I) / 2 of each block.
    low = np.array([[0.75, 0.25, 0], [0.1, 0.8, 0.1], [0, 0.5, 0.5]])
    high = np.array([[0.5, 0, 0.5], [0.5, 0.5, 0], [0.25, 0.125, 0.625]])
    np.testing.assert_allclose(attention.rollout(weights), high @ low)
    # Without each query's smallest weight, and rows rescaled to 1.
    np.testing.assert_allclose(
        attention.rollout(weights[:1], discard_ratio=0.34),
        [[0.75, 0.25, 0], [0, 8 / 9, 1 / 9], [0, 0.5, 0.5]],
    )


@pytest.mark.parametrize(
    "fusion, fused",
    [
        ("mean", [[0.5, 0.5], [0.4, 0.6]]),
        ("max", [[0.9, 0.9], [0.5, 0.7]]),
        ("min", [[0.1, 0.1], [0.3, 0.5]]),
    ],
)
def test_heads_are_fused(fusion, fused):
    heads = np.array([[[[0.9, 0.1], [0.3, 0.7]], [[0.1, 0.9], [0.5, 0.5]]]])
    expected = np.array(fused) + np.eye(2)
    expected /= expected.sum(axis=1, keepdims=True)
    found = attention.rollout(heads, head_fusion=fusion)
    np.testing.assert_allclose(found, expected)


def test_mean_distance_by_hand():
    weights = np.zeros((1, 1, 1, 5, 5), np.float32)
    weights[..., 0] = 0.5  # The class token's half is left out.
    for query, key in ((1, 1), (2, 1), (3, 1), (4, 1)):
        weights[..., query, key] = 0.5
    seen = attention.Attention(weights, np.eye(1, 5, dtype=np.float32), (2, 2), 1)
    expected = (0 + 4 + 4 + 4 * 2**0.5) / 4
    np.testing.assert_allclose(
        attention.mean_distances(seen, 4), [[expected]], rtol=1e-6
    )
    even = dataclasses.replace(seen, weights=np.full_like(weights, 0.2))
    np.testing.assert_allclose(
        attention.mean_distances(even, 4),
        attention.patch_distances((2, 2), 4).mean(),
        rtol=1e-6,
    )
