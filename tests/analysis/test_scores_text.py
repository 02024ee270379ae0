"""What `evaluate` prints of a split."""

import numpy as np
import pytest

from vit_jax.analysis.scores_text import to_text
from vit_jax.data import Dataset
from vit_jax.training import scoring


def make_scores(*counts):
    labels = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    images = np.zeros((len(labels), 2, 2, 1), np.uint8)
    logits = np.zeros((len(labels), len(counts)), np.float32)
    logits[:, 0] = 1
    names = tuple(f"class {i}" for i in range(len(counts)))
    return scoring.describe_scores(logits, Dataset(images, labels, names))


def test_the_split_and_the_interval_are_named():
    first, *_ = to_text(make_scores(50, 50), "val").splitlines()
    assert first.startswith(
        "val split, 100 images: accuracy 50.00% (95% interval 40.38% to 59.62%), loss "
    )


@pytest.mark.parametrize("counts, is_shown", [((90, 10), True), ((50, 50), False)])
def test_unequal_classes_have_a_baseline(counts, is_shown):
    text = to_text(make_scores(*counts), "test")
    words = (
        "balanced accuracy 50.00%; always answering class 0 would be right for 90.00%"
    )
    assert (words in text) == is_shown
