"""Calibration: cases counted by hand, scikit-learn, and known distortions."""

import numpy as np
import pytest
import sklearn.calibration
import sklearn.metrics
from calibration import get_ece, get_ece_em
from scipy.special import softmax

from vit_jax.metrics import calibration


def _logits(confidence, num_classes=2):
    """Logits that give class 0 these probabilities and the others equal ones."""
    p = np.asarray(confidence, np.float64)
    rest = np.log((1 - p) / (num_classes - 1))
    return np.stack([np.log(p), *[rest] * (num_classes - 1)], axis=1)


def test_by_hand():
    # Confidences .65 (right), .65 (wrong) and .95 (right).
    logits, labels = _logits([0.65, 0.65, 0.95]), np.array([0, 1, 0], np.int32)
    bins = calibration.reliability_bins(logits, labels, 10)
    assert bins.counts.tolist() == [0, 0, 0, 0, 0, 0, 2, 0, 0, 1]
    np.testing.assert_allclose(bins.confidence[[6, 9]], [0.65, 0.95])
    np.testing.assert_allclose(bins.accuracy[[6, 9]], [0.5, 1])
    assert np.isnan(bins.accuracy[0])
    # (2 * .15 + 1 * .05) / 3
    assert bins.calibration_error == pytest.approx(0.35 / 3)
    # Two classes: twice the squared error of one.
    brier = 2 * (0.35**2 + 0.65**2 + 0.05**2) / 3
    assert calibration.brier_score(logits, labels) == pytest.approx(brier)


def test_a_bin_holds_its_upper_edge():
    logits, labels = _logits([0.75]), np.array([0], np.int32)
    counts = calibration.reliability_bins(logits, labels, 4).counts
    assert counts.tolist() == [0, 0, 1, 0]


def test_equal_mass_bins():
    confidence = np.linspace(0.55, 0.95, 12)
    logits, labels = _logits(confidence), np.zeros(12, np.int32)
    bins = calibration.reliability_bins(logits, labels, 4, equal_mass=True)
    assert bins.counts.tolist() == [3, 3, 3, 3]
    # All are right, so the error is 1 minus the mean confidence for any bins.
    assert bins.calibration_error == pytest.approx(np.mean(1 - confidence))


def test_agrees_with_the_uncertainty_calibration_package():
    rng = np.random.default_rng(3)
    labels = rng.integers(10, size=1500)
    logits = rng.normal(size=(1500, 10)) + 2 * np.eye(10)[labels]
    probabilities = softmax(logits, axis=1)
    for equal_mass, reference in ((False, get_ece), (True, get_ece_em)):
        ours = calibration.reliability_bins(logits, labels, equal_mass=equal_mass)
        theirs = reference(probabilities, labels)
        assert ours.calibration_error == pytest.approx(theirs, abs=1e-9)


def test_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    logits, labels = 2 * rng.normal(size=(500, 5)), rng.integers(5, size=500)
    labels = labels.astype(np.int32)
    probabilities = softmax(logits, axis=1)
    assert calibration.brier_score(logits, labels) == pytest.approx(
        sklearn.metrics.brier_score_loss(labels, probabilities, scale_by_half=False)
    )
    correct = probabilities.argmax(axis=1) == labels
    fraction_right, confidence = sklearn.calibration.calibration_curve(
        correct, probabilities.max(axis=1), n_bins=15
    )
    bins = calibration.reliability_bins(logits, labels)
    filled = bins.counts > 0
    np.testing.assert_allclose(bins.accuracy[filled], fraction_right)
    np.testing.assert_allclose(bins.confidence[filled], confidence)


def test_broken_logits_give_nothing():
    logits = np.array([[1, np.nan], [0, 1]], np.float32)
    labels = np.array([0, 1], np.int32)
    summary = calibration.summarize(logits, labels)
    assert summary.pop("temperature") == 1.0
    assert set(summary.values()) == {None}
