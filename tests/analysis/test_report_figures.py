"""The figures of a report, from the logits of a split."""

import pytest

from tests.analysis.made import all_scores, make_scored
from vit_jax.analysis import report_figures


@pytest.mark.parametrize(
    "calibrated, words", [(False, "no temperature"), (True, "✓ better")]
)
def test_the_reliability_diagram_says_whether_calibration_helps(calibrated, words):
    scored = make_scored(range(30), num_examples=90)
    val = make_scored(range(40), num_examples=120) if calibrated else make_scored([0])
    calibration = all_scores(scored, val=val)["calibration"]
    figure = report_figures.draw_reliability(scored, calibration, "test")
    texts = [figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)]
    assert any(words in text for text in texts)
    assert len(figure.axes) == (6 if calibrated else 3)
