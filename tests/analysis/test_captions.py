"""Captions of the figures of a report, and their order."""

from tests.analysis.made import BOTH_TEST_SETS, FIGURES
from vit_jax.analysis.captions import caption, in_order


def test_every_figure_has_a_caption():
    for name in FIGURES | BOTH_TEST_SETS | {"confusion_cat_dog"}:
        assert caption(name).endswith(".")


def test_curves_come_first_then_errors_and_galleries_last():
    names = ["confusion_cat_dog", "reliability", "confusion_matrix", "training_curves"]
    expected = ["training_curves", "confusion_matrix", "reliability"]
    assert in_order(names) == [*expected, "confusion_cat_dog"]
