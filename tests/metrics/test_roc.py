"""ROC curves: cases counted by hand, and scikit-learn."""

import math

import numpy as np
import pytest
import sklearn.metrics
from scipy.special import softmax

from vit_jax.metrics import roc


def test_by_hand():
    # Ranked for class 1: labels 1, 0, 1, 0. Three of four pairs are in order.
    logits = np.array([[0, 4], [0, 3], [0, 2], [0, 1]], np.float32)
    curves = roc.one_vs_rest(logits, np.array([1, 0, 1, 0], np.int32))
    assert [curve.auc for curve in curves] == [0.75, 0.75]
    np.testing.assert_allclose(curves[1].false_positive_rate, [0, 0, 0.5, 0.5, 1])
    np.testing.assert_allclose(curves[1].true_positive_rate, [0, 0.5, 0.5, 1, 1])


def test_mean_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=300).astype(np.int32)
    logits = rng.normal(size=(300, 5)).astype(np.float32)
    logits[np.arange(300), labels] += 1
    expected = sklearn.metrics.roc_auc_score(
        labels, softmax(logits.astype(np.float64), axis=1), multi_class="ovr"
    )
    curves = roc.one_vs_rest(logits, labels)
    assert roc.macro_auc(curves) == pytest.approx(expected)


def test_confident_scores_are_not_tied():
    # In float32 both probabilities of class 1 are exactly 1.
    logits = np.array([[0, 40], [0, 30]], np.float32)
    assert roc.one_vs_rest(logits, np.array([1, 0], np.int32))[1].auc == 1.0


def test_a_class_absent_from_the_split_has_no_curve():
    logits = np.array([[2, 0, 0], [0, 2, 0]], np.float32)
    curves = roc.one_vs_rest(logits, np.array([0, 1], np.int32))
    assert math.isnan(curves[2].auc)
    assert curves[2].false_positive_rate.size == 0
    assert roc.macro_auc(curves) == 1.0


def test_broken_logits_have_no_area():
    logits = np.array([[2, np.nan], [0, 2]], np.float32)
    curves = roc.one_vs_rest(logits, np.array([0, 1], np.int32))
    assert math.isnan(roc.macro_auc(curves))
