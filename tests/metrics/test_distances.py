"""Distances within and between classes."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from vit_jax.metrics import distances


def test_by_hand():
    # Class 0 at (0, 0) and (0, 2), class 1 at (3, 0) and (3, 2).
    features = np.array([[0, 0], [0, 2], [3, 0], [3, 2]], np.float32)
    result = distances.class_distances(features, np.array([0, 0, 1, 1], np.int32))
    assert result["within"] == pytest.approx(2)
    assert result["between"] == pytest.approx((3 + math.sqrt(13)) / 2)
    assert result["ratio"] == pytest.approx(result["between"] / 2)
    assert result["num_examples"] == 4


def test_agrees_with_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 7)), rng.normal(2, 1, size=(30, 7))
    result = distances.class_distances(
        np.concatenate([a, b]), np.repeat([0, 1], [20, 30])
    )
    assert result["within"] == pytest.approx(
        np.concatenate([pdist(a), pdist(b)]).mean()
    )
    assert result["between"] == pytest.approx(cdist(a, b).mean())


def test_classes_alike_have_ratio_one_and_a_sample_is_repeatable():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2100, 10)).astype(np.float32)
    labels = rng.integers(3, size=2100).astype(np.int32)
    first, again = (distances.class_distances(features, labels) for _ in range(2))
    assert first["num_examples"] == distances.MAX_EXAMPLES < len(labels)
    assert first == again
    assert first["ratio"] == pytest.approx(1, abs=0.02)


def test_without_pairs_there_is_no_distance():
    features = np.array([[0.0], [1.0]])
    apart = distances.class_distances(features, np.array([0, 1], np.int32))
    assert math.isnan(apart["within"]) and math.isnan(apart["ratio"])
    together = distances.class_distances(features, np.array([0, 0], np.int32))
    assert math.isnan(together["between"]) and together["within"] == 1


@pytest.mark.parametrize("features", [np.ones((40, 3)), np.arange(40.0)[:, None]])
def test_features_that_are_equal_or_single_have_a_plane(features):
    assert np.isfinite(distances.embed(features.astype(np.float32))).all()


@pytest.mark.slow
def test_embedding_keeps_far_groups_apart_and_is_repeatable():
    rng = np.random.default_rng(0)
    groups = np.concatenate([rng.normal(size=(12, 5)), rng.normal(100, size=(12, 5))])
    places = distances.embed(groups.astype(np.float32))
    np.testing.assert_array_equal(places, distances.embed(groups.astype(np.float32)))
    centers = places[:12].mean(axis=0), places[12:].mean(axis=0)
    for place, own in zip(places, [0] * 12 + [1] * 12, strict=True):
        gaps = [np.linalg.norm(place - center) for center in centers]
        assert np.argmin(gaps) == own
