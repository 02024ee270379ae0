"""Relevance by hand, and its gradients by the chain rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.interpret.untrained import CLASSES, IMAGES, make_run
from vit_jax.interpret import attention, gradcam, relevance
from vit_jax.interpret import weights as model_weights


def test_relevance_by_hand():
    weights = np.array([[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.5, 0.5]]])
    gradients = np.array([[[2.0, -1.0], [4.0, 0.0]], [[1.0, 5.0], [-2.0, 2.0]]])
    # Positive parts of the products: [[1, 0], [1, 0]] and [[1, 0], [0, 1]].
    found = relevance.propagate(weights[:, None], gradients[:, None])
    low = np.array([[2.0, 0], [1, 1]])
    np.testing.assert_allclose(found, 2 * low)
    one_block = relevance.propagate(weights[None], gradients[None])
    np.testing.assert_allclose(one_block, [[2, 0], [0.5, 1.5]])


@pytest.mark.slow
def test_gradients_by_attention_agree_with_the_chain_rule():
    """The temperature is a parameter that acts on the attention weights alone."""
    run = make_run(depth=1, local_attention=True)
    images = run.normalize(IMAGES)

    def place(factors):
        variables = jax.tree.map(lambda x: x, run.variables)
        variables["params"]["block0"]["attention"]["inverse_temperature"] = factors
        return variables

    factors = run.variables["params"]["block0"]["attention"]["inverse_temperature"]

    def logits_and_weights(factors):
        logits, weights, _ = attention.forward_with_attention(
            place(factors), images, run.model
        )
        chosen = jnp.take_along_axis(logits, jnp.asarray(CLASSES)[:, None], axis=1)
        return chosen.sum(), weights

    direction = jnp.array([1.0, -0.5])
    (_, weights), (change, weights_change) = jax.jvp(
        logits_and_weights, (factors,), (direction,)
    )
    zeros = {"block0": {"attention": {"attention": jnp.zeros(weights[:, 0].shape)}}}
    found = gradcam.logit_gradients(run.variables, images, CLASSES, zeros, run.model)
    gradients = found["block0"]["attention"]["attention"]
    assert abs(change) > 1e-4
    np.testing.assert_allclose(
        (gradients * weights_change[:, 0]).sum(), change, rtol=1e-3
    )


@pytest.mark.slow
def test_relevance_maps_need_no_class_token():
    for pooling in ("cls", "mean", "sequence"):
        run = make_run(pooling=pooling)
        seen = attention.read_attention(run, IMAGES)
        maps = relevance.relevance_maps(run, IMAGES, CLASSES, seen)
        assert maps.shape == (3, 2, 2) and maps.min() >= -1e-6 and maps.max() > 0


@pytest.mark.slow
def test_a_normalised_stem_is_explained_like_any_other():
    run = make_run(
        stem="conv", stem_channels=(8, 8), stem_norm="batch", pooling="mean",
        stem_downsampling="avg_pool",
    )  # fmt: skip
    seen = attention.read_attention(run, IMAGES)
    maps = relevance.relevance_maps(run, IMAGES, CLASSES, seen)
    assert maps.shape == (3, 2, 2) and maps.max() > 0
    # BatchNorm's running statistics are used: an image's map is its own.
    alone = attention.read_attention(run, IMAGES[:1])
    np.testing.assert_allclose(alone.weights, seen.weights[:1], rtol=1e-4, atol=1e-6)
    assert model_weights.stem_filters(run).shape[:3] == (3, 3, 3)


@pytest.mark.slow
def test_relevance_does_not_depend_on_the_implementation_of_attention():
    runs = [
        make_run(attention_implementation=implementation)
        for implementation in ("plain", "xla", "cudnn")
    ]
    plain, *others = (
        relevance.relevance_maps(
            run, IMAGES, CLASSES, attention.read_attention(run, IMAGES)
        )
        for run in runs
    )
    assert plain.max() > 0
    for maps in others:
        np.testing.assert_array_equal(maps, plain)
