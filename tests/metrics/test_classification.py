"""Classification metrics: cases counted by hand, and scikit-learn."""

import json
import math

import numpy as np
import pytest
import sklearn.metrics
from scipy.special import softmax

from vit_jax.metrics import classification, confusions

# Predicted 0, 1, 2, 1 for labels 0, 1, 1, 2.
LOGITS = np.array([[3, 1, 0], [0, 2, 1], [0, 1, 2], [0, 2, 1]], np.float32)
LABELS = np.array([0, 1, 1, 2], np.int32)


def _random(num_classes=5, n=400):
    rng = np.random.default_rng(0)
    labels = rng.integers(num_classes, size=n).astype(np.int32)
    logits = rng.normal(size=(n, num_classes)).astype(np.float32)
    logits[np.arange(n), labels] += 1
    return logits, labels


def test_by_hand():
    assert classification.accuracy(LOGITS, LABELS) == 0.5
    assert classification.top_k_accuracy(LOGITS, LABELS, 2) == 1.0
    np.testing.assert_array_equal(
        confusions.confusion_matrix(LOGITS, LABELS),
        [[1, 0, 0], [0, 1, 1], [0, 1, 0]],
    )
    scores = classification.per_class(LOGITS, LABELS)
    np.testing.assert_allclose(scores.precision, [1, 0.5, 0])
    np.testing.assert_allclose(scores.recall, [1, 0.5, 0])
    np.testing.assert_allclose(scores.f1, [1, 0.5, 0])
    np.testing.assert_array_equal(scores.support, [1, 2, 1])
    macro = classification.summarize(LOGITS, LABELS, ("a", "b", "c"))["macro"]
    assert macro == {"precision": 0.5, "recall": 0.5, "f1": 0.5}
    # Softmax of equal logits: log k, whatever the label.
    assert classification.cross_entropy(
        np.zeros((2, 10), np.float32), np.array([0, 9])
    ) == pytest.approx(math.log(10))


def test_agrees_with_scikit_learn():
    logits, labels = _random()
    for top in (1, 2, 4):
        assert classification.top_k_accuracy(logits, labels, top) == pytest.approx(
            sklearn.metrics.top_k_accuracy_score(labels, logits, k=top)
        )
    assert classification.cross_entropy(logits, labels) == pytest.approx(
        sklearn.metrics.log_loss(labels, softmax(logits.astype(np.float64), axis=1))
    )
    summary = classification.summarize(logits, labels, tuple("abcde"))
    assert summary["macro"]["f1"] == pytest.approx(
        sklearn.metrics.f1_score(labels, logits.argmax(1), average="macro")
    )


def test_a_confident_mistake_costs_a_finite_exact_amount():
    logits = np.array([[1000.0, 0.0]], np.float32)
    assert classification.cross_entropy(logits, np.array([1])) == 1000.0


def test_equal_logits_are_no_better_than_chance():
    logits = np.zeros((10, 10), np.float32)
    labels = np.arange(10, dtype=np.int32)
    assert classification.accuracy(logits, labels) == 0.1
    assert classification.top_k_accuracy(logits, labels, 5) == 0.5


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_broken_logits_are_seen_and_never_right(broken):
    logits = LOGITS.copy()
    logits[0, 0] = broken
    assert math.isnan(classification.accuracy(logits, LABELS))
    assert math.isnan(classification.top_k_accuracy(logits, LABELS, 3))
    assert math.isnan(classification.cross_entropy(logits, LABELS))
    assert classification.predicted_classes(logits).tolist() == [-1, 1, 2, 1]
    assert confusions.confusion_matrix(logits, LABELS).sum() == 3
    assert classification.per_class(logits, LABELS).recall[0] == 0
    mistakes = classification.most_confident_mistakes(logits, LABELS, 9)
    assert sorted(mistakes) == [2, 3]
    summary = classification.summarize(logits, LABELS, ("a", "b", "c"))
    assert summary["accuracy"] is summary["cross_entropy"] is None
    assert summary["num_without_prediction"] == 1


def test_confidence_is_the_probability_of_the_predicted_class():
    logits = np.log(np.array([[1, 3], [9, 1], [1, 1]], np.float32))
    logits[2, 0] = np.inf
    confidence = classification.confidence(logits)
    np.testing.assert_allclose(confidence, [0.75, 0.9, np.nan], rtol=1e-6)


def test_the_worst_class_is_the_first_of_equal_ones():
    # Nothing is of the first class, and the last two are never predicted rightly.
    logits = np.eye(4, dtype=np.float32)[[1, 1, 1]]
    labels = np.array([1, 2, 3], np.int32)
    summary = classification.summarize(logits, labels, ("a", "b", "c", "d"))
    assert summary["worst_class"] == {"name": "c", "f1": 0.0}
    assert summary["worst_class_by_accuracy"] == {"name": "c", "accuracy": 0.0}


def test_most_confident_mistakes():
    logits = np.array([[9, 0], [5, 0], [1, 0], [0, 3]], np.float32)
    labels = np.array([0, 1, 1, 0], np.int32)
    mistakes = classification.most_confident_mistakes(logits, labels, 2)
    assert mistakes.tolist() == [1, 3]
    assert len(classification.most_confident_mistakes(logits, labels, 9)) == 3
    assert len(classification.most_confident_mistakes(logits[:1], labels[:1], 9)) == 0


def test_a_class_without_examples_is_undefined_and_left_out_of_means():
    logits, labels = LOGITS[:3], LABELS[:3]  # no example of class 2
    accuracy = classification.per_class(logits, labels).recall
    np.testing.assert_array_equal(accuracy, [1, 0.5, np.nan])
    summary = classification.summarize(logits, labels, ("a", "b", "c"))
    assert summary["macro"]["recall"] == 0.75
    assert summary["per_class"]["c"]["f1"] is None


def test_summary_is_strict_json_and_complete():
    logits, labels = _random(num_classes=7)
    summary = classification.summarize(logits, labels, tuple("abcdefg"))
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["accuracy"] == classification.accuracy(logits, labels)
    assert summary["top_5_accuracy"] == classification.top_k_accuracy(logits, labels, 5)
    assert sum(c["support"] for c in summary["per_class"].values()) == 400
    worst = min(summary["per_class"], key=lambda name: summary["per_class"][name]["f1"])
    assert summary["worst_class"]["name"] == worst
    least = summary["worst_class_by_accuracy"]
    recalls = {name: c["recall"] for name, c in summary["per_class"].items()}
    assert least["accuracy"] == recalls[least["name"]] == min(recalls.values())


def test_unequal_classes_have_a_baseline_and_a_balanced_accuracy():
    labels = np.array([0] * 8 + [1] * 2, np.int32)
    logits = np.eye(2)[[0] * 9 + [1]]
    scores = classification.summarize(logits, labels, ("many", "few"))
    assert scores["accuracy"] == pytest.approx(0.9)
    assert scores["balanced_accuracy"] == pytest.approx(0.75)
    assert scores["majority_class"] == {"name": "many", "accuracy": 0.8}


def test_intervals_hold_the_true_scores_of_a_class_as_often_as_they_say():
    """Of a confusion matrix whose scores are known, drawn many times."""
    rng = np.random.default_rng(0)
    joint = np.array([[0.30, 0.05, 0.02], [0.08, 0.25, 0.05], [0.02, 0.03, 0.20]])
    true = {"precision": joint[0, 0] / joint[:, 0].sum()}
    true["recall"] = joint[0, 0] / joint[0].sum()
    true["f1"] = 2 / (1 / true["precision"] + 1 / true["recall"])
    covered = dict.fromkeys(true, 0)
    for _ in range(100):
        cells = rng.choice(9, 200, p=joint.ravel())
        logits = np.eye(3, dtype=np.float32)[cells % 3]
        intervals = classification.per_class(logits, cells // 3).intervals()
        for name, value in true.items():
            low, high = intervals[name][0]
            covered[name] += low <= value <= high
    for name, count in covered.items():
        assert 0.9 <= count / 100 < 1, name


def test_a_class_without_examples_has_no_interval():
    scores = classification.per_class(
        np.eye(3, dtype=np.float32)[[0, 0]], np.array([0, 1])
    )
    for name, ends in scores.intervals().items():
        assert np.isnan(ends[2]).all(), name
        assert (ends[0] >= 0).all() and (ends[0] <= 1).all(), name
    # Nothing is predicted as the second class.
    assert np.isnan(scores.intervals()["precision"][1]).all()
