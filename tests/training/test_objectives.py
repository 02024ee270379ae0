"""The losses, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.training import objectives

VISIBLE = np.array([[0, 3], [5, 1]])


def test_loss_by_hand():
    logits = jnp.log(jnp.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]))
    targets = jnp.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    loss, metrics = objectives.cross_entropy(logits, targets)
    assert float(loss) == pytest.approx((np.log(2) + np.log(10)) / 2)
    assert float(metrics["accuracy"]) == 0.5
    assert float(metrics["weighted_accuracy"]) == pytest.approx(0.5)


def test_accuracy_weighted_by_each_labels_fraction():
    # Lambda is 0.7 and 0.6; the model takes the larger and then the smaller part.
    mixed = jnp.array([[0.7, 0.3, 0.0], [0.4, 0.0, 0.6]])
    logits = jnp.array([[2.0, 1.0, 0.0], [2.0, 1.0, 0.0]])
    for smoothing in (0.0, 0.1):
        targets = (1 - smoothing) * mixed + smoothing / 3
        _, metrics = objectives.cross_entropy(logits, targets, smoothing)
        assert float(metrics["accuracy"]) == 0.5
        assert float(metrics["weighted_accuracy"]) == pytest.approx((0.7 + 0.4) / 2)


def reconstruction_by_hand(predicted, images, visible, size):
    """One image, one patch and one pixel at a time, in float64."""
    losses = []
    for prediction, image, seen in zip(predicted, images, visible, strict=True):
        columns = image.shape[1] // size
        errors = []
        for number in set(range(len(prediction))) - set(seen.tolist()):
            top, left = size * (number // columns), size * (number % columns)
            patch = np.float64(image[top : top + size, left : left + size])
            target = (patch - patch.mean()) / np.sqrt(patch.var() + 1e-6)
            errors.append(((prediction[number] - target.ravel()) ** 2).mean())
        losses.append(np.mean(errors))
    return losses


def test_reconstruction_losses_are_those_by_hand():
    rng = np.random.default_rng(0)
    images = np.float32(rng.normal(3, 2, (2, 8, 12, 3)))
    images[1, 4:, :4] = 1.0  # a patch of one color
    predicted = np.float32(rng.normal(size=(2, 6, 48)))
    losses = objectives.reconstruction_losses(
        *map(jnp.array, (predicted, images, VISIBLE)), 4
    )
    by_hand = reconstruction_by_hand(predicted, images, VISIBLE, 4)
    np.testing.assert_allclose(losses, by_hand, rtol=1e-5)
    # The mean of each patch is an error of 1 where the patch is not of one color.
    zeros = jnp.zeros((2, 6, 48))
    losses = objectives.reconstruction_losses(
        zeros, *map(jnp.array, (images, VISIBLE)), 4
    )
    np.testing.assert_allclose(losses, [1, 3 / 4], rtol=1e-5)


def test_only_hidden_patches_have_a_gradient():
    rng = np.random.default_rng(0)
    images = jnp.float32(rng.normal(size=(2, 8, 12, 3)))
    predicted = jnp.float32(rng.normal(size=(2, 6, 48)))
    gradient = jax.grad(
        lambda x: objectives.reconstruction_losses(
            x, images, jnp.array(VISIBLE), 4
        ).sum()
    )(predicted)
    has_gradient = (np.asarray(gradient) != 0).any(axis=-1)
    expected = np.ones((2, 6), bool)
    np.put_along_axis(expected, VISIBLE, False, axis=1)
    np.testing.assert_array_equal(has_gradient, expected)
