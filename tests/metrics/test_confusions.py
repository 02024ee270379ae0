"""Confused classes, counted by hand."""

import json

import numpy as np

from vit_jax.metrics import confusions


def test_top_confusions_are_ordered_and_never_empty_pairs():
    matrix = np.array([[9, 2, 0], [5, 9, 2], [0, 0, 9]])
    expected = [(1, 0, 5, 5 / 9), (0, 1, 2, 2 / 9), (1, 2, 2, 2 / 9)]
    assert confusions.top_confusions(matrix, 5) == expected
    assert confusions.top_confusions(matrix, 1) == expected[:1]
    both = [(0, 1, 7, 7 / 9), (1, 2, 2, 2 / 9)]
    assert confusions.top_confusions(matrix, both_ways=True) == both
    assert confusions.top_confusions(np.diag([3, 4])) == []


def test_examples_of_one_confusion_come_the_surest_first():
    logits = np.array([[0, 1], [0, 9], [5, 0], [0, 4], [0, 7]], np.float32)
    labels = np.array([0, 0, 0, 0, 1], np.int32)
    found = confusions.examples_of_confusion(logits, labels, 0, 1)
    assert found.tolist() == [1, 3, 0]
    assert confusions.examples_of_confusion(logits, labels, 1, 0).tolist() == []


def test_the_summary_names_the_classes():
    rng = np.random.default_rng(0)
    labels = rng.integers(7, size=400).astype(np.int32)
    logits = rng.normal(size=(400, 7)).astype(np.float32)
    summary = confusions.summarize(logits, labels, tuple("abcdefg"))
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    top = summary["top_confusions"][0]
    row, column = (ord(top[key]) - ord("a") for key in ("true", "predicted"))
    matrix = np.array(summary["confusion_matrix"])
    num_errors = matrix.sum() - matrix.trace()
    assert matrix[row, column] == top["count"]
    assert top["fraction_of_errors"] == top["count"] / num_errors
    both = summary["top_confused_pairs"][0]
    row, column = (ord(both[key]) - ord("a") for key in ("first", "second"))
    assert matrix[row, column] + matrix[column, row] == both["count"]
    assert both["fraction_of_errors"] == both["count"] / num_errors
