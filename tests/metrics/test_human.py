"""Agreement with people, on made-up counts of the published form."""

import json
import math

import numpy as np
import pytest

from vit_jax.errors import UserError
from vit_jax.metrics import human

COUNTS = np.array([[8, 2, 0], [1, 9, 0], [0, 5, 5]], np.int64)
LABELS = np.array([0, 1, 2], np.int32)


def test_cross_entropy_by_hand():
    uniform = np.zeros((3, 3), np.float32)
    summary = human.summarize(uniform, LABELS, COUNTS)
    assert summary["cross_entropy"] == pytest.approx(math.log(3))
    entropy = -np.mean(
        [
            0.8 * math.log(0.8) + 0.2 * math.log(0.2),
            0.1 * math.log(0.1) + 0.9 * math.log(0.9),
            math.log(0.5),
        ]
    )
    assert summary["entropy_of_people"] == pytest.approx(entropy)
    # A model with the distribution of people reaches the bound.
    logits = np.log(COUNTS / 10 + 1e-12)
    summary = human.summarize(logits, LABELS, COUNTS)
    assert summary["cross_entropy"] == pytest.approx(entropy, abs=1e-6)


def _with_mistakes(table, n=50):
    """Logits and labels of `n` examples of each class, confused as in the table."""
    labels = np.repeat(np.arange(3), n).astype(np.int32)
    predicted = np.concatenate([np.repeat(np.arange(3), row) for row in table])
    return np.eye(3, dtype=np.float32)[predicted], labels


def test_confusion_correlation():
    table = [[45, 5, 0], [2, 47, 1], [0, 10, 40]]
    logits, labels = _with_mistakes(table)
    alike = np.asarray(table, np.int64)[labels]
    assert human.confusion_correlation(logits, labels, alike) == pytest.approx(1)
    # People confuse only those pairs that the model never confuses.
    unlike = np.array([[40, 0, 5], [3, 40, 4], [5, 0, 40]], np.int64)[labels]
    assert human.confusion_correlation(logits, labels, unlike) < -0.5
    perfect = np.eye(3, dtype=np.float32)[labels]
    assert math.isnan(human.confusion_correlation(perfect, labels, alike))


def test_largest_differences():
    logits = np.log(np.array([[0.8, 0.2, 1e-9], [0.9, 0.1, 1e-9], [1e-9, 0.9, 0.1]]))
    indices, differences = human.largest_differences(logits, COUNTS, 2)
    assert indices.tolist() == [1, 2]
    np.testing.assert_allclose(differences, [0.8, 0.4], atol=1e-6)
    logits[1] = np.nan
    assert human.largest_differences(logits, COUNTS, 2)[0].tolist() == [2, 0]


def test_summary():
    logits = np.log(COUNTS / 10 + 1e-3)
    summary = human.summarize(logits, LABELS, COUNTS)
    assert summary["accuracy_of_people"] == pytest.approx((0.8 + 0.9 + 0.5) / 3)
    assert summary["accuracy_of_majority"] == pytest.approx(2 / 3)
    logits[0, 0] = np.nan
    summary = human.summarize(logits, LABELS, COUNTS)
    assert summary["cross_entropy"] is None
    json.dumps(summary, allow_nan=False)


def test_counts_of_a_file(tmp_path):
    path = tmp_path / "counts.npy"
    np.save(path, COUNTS)
    np.testing.assert_array_equal(human.load_counts(path, (3, 3)), COUNTS)
    with pytest.raises(UserError, match=r"int64 \[3, 3\].*int64 \[4, 3\]"):
        human.load_counts(path, (4, 3))
    with pytest.raises(UserError, match=r"none\.npy cannot be read"):
        human.load_counts(tmp_path / "none.npy", (3, 3))


def test_a_file_of_another_kind_or_with_pickled_objects_is_refused(tmp_path):
    # A header that promises 8 TB.
    header = {"descr": "<i8", "fortran_order": False, "shape": (10**6, 10**6)}
    with (tmp_path / "huge.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    (tmp_path / "page.npy").write_bytes(b"<html>not found</html>")
    (tmp_path / "empty.npy").touch()
    np.savez(tmp_path / "several.npz", COUNTS)
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    np.save(tmp_path / "open.npy", COUNTS)
    opened = (tmp_path / "open.npy").read_bytes().replace(b"}", b" ", 1)
    (tmp_path / "open.npy").write_bytes(opened)
    files = list(tmp_path.iterdir())
    assert len(files) == 6
    for file in files:
        with pytest.raises(UserError, match="cannot be read"):
            human.load_counts(file, (3, 3))


@pytest.mark.parametrize(
    "counts, words",
    [
        ([[8, 2, 0], [0, 0, 0]], "example 1"),
        ([[8, 2, 0], [5, -1, 3]], "example 1"),
        ([[0.8, 0.2, 0], [0, 1, 0]], "float64"),
    ],
)
def test_impossible_counts_are_named(tmp_path, counts, words):
    np.save(tmp_path / "counts.npy", np.array(counts))
    with pytest.raises(UserError, match=words):
        human.load_counts(tmp_path / "counts.npy", (2, 3))
