"""Pooled features, and their t-SNE plane."""

import functools

import jax
import numpy as np
import pytest

from tests.interpret.untrained import IMAGES, make_run
from vit_jax.interpret.features import embed


def test_features_are_what_the_head_sees():
    run = make_run()
    found = run.features(IMAGES)
    head = run.variables["params"]["head"]
    apply = jax.jit(functools.partial(run.model.apply, train=False))
    logits = apply(run.variables, run.normalize(IMAGES))
    np.testing.assert_allclose(
        found @ head["kernel"] + head["bias"][None], logits, rtol=1e-4, atol=1e-4
    )


RNG = np.random.default_rng(0)


@pytest.mark.slow
def test_embedding_keeps_far_groups_apart_and_is_repeatable():
    groups = np.concatenate([RNG.normal(size=(12, 5)), RNG.normal(100, size=(12, 5))])
    places = embed(groups.astype(np.float32))
    np.testing.assert_array_equal(places, embed(groups.astype(np.float32)))
    centers = places[:12].mean(axis=0), places[12:].mean(axis=0)
    for place, own in zip(places, [0] * 12 + [1] * 12, strict=True):
        gaps = [np.linalg.norm(place - center) for center in centers]
        assert np.argmin(gaps) == own
