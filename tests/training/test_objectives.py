import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.training import objectives


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
