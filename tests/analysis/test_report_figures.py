"""The figures of a report, from the logits of a split."""

import numpy as np
import pytest

from tests.analysis.made import all_scores, make_scored
from vit_jax.analysis import report_figures
from vit_jax.analysis.scored import Scored
from vit_jax.data import Dataset


@pytest.mark.parametrize(
    "mistakes, val, words, num_panels",
    [
        (30, make_scored([0]), "without a temperature", 3),
        (30, make_scored(range(40), num_examples=120), "✓ lower NLL", 6),
        (0, make_scored(range(40), num_examples=120), "✗ higher NLL", 6),
    ],
)
def test_the_reliability_diagram_says_whether_calibration_helps(
    mistakes, val, words, num_panels
):
    scored = make_scored(range(mistakes), num_examples=90)
    calibration = all_scores(scored, val=val)["calibration"]
    figure = report_figures.draw_reliability(scored, calibration, "test")
    texts = [figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)]
    assert any(words in text for text in texts)
    assert len(figure.axes) == num_panels


def test_a_temperature_that_was_fitted_to_the_same_images_has_no_mark():
    scored = make_scored(range(30), num_examples=90)
    calibration = all_scores(scored, val=scored)["calibration"]
    figure = report_figures.draw_reliability(scored, calibration, "val")
    texts = [axes.get_title() for axes in figure.axes]
    assert any("fitted on this split" in text for text in texts)
    assert not any("NLL" in text.splitlines()[0] for text in texts if text)


@pytest.mark.parametrize("wrong, groups", [([], 1), ([3], 2)])
def test_confidence_of_mistakes_is_drawn_where_there_is_one(wrong, groups):
    scored = make_scored(wrong, num_examples=30)
    figures = report_figures.draw_figures(scored, all_scores(scored), "test")
    axes = figures["confidence_by_class"].axes[0]
    assert len(axes.containers) == groups


@pytest.mark.slow
def test_titles_say_by_what_the_classes_of_a_figure_are_chosen():
    rng = np.random.default_rng(0)
    labels = np.arange(126, dtype=np.int32) % 21
    images, names = np.zeros((126, 4, 4, 3), np.uint8), tuple("abcdefghijklmnopqrstu")
    logits = rng.normal(size=(126, 21)).astype(np.float32) + np.eye(21)[labels]
    scored = Scored(Dataset(images, labels, names), logits.astype(np.float32))
    figures = report_figures.draw_figures(scored, all_scores(scored), "test")
    chosen_by = {
        "per_class_accuracy": "accuracy",
        "precision_recall_f1": "F1",
        "confidence_by_class": "accuracy",
        "roc": "AUC",
    }
    for name, by in chosen_by.items():
        assert figures[name].get_suptitle().endswith(f"the highest by {by}"), name


@pytest.mark.slow
def test_a_model_without_a_finite_logit_has_figures_of_the_rest():
    labels = np.arange(20, dtype=np.int32) % 10
    images, names = np.zeros((20, 4, 4, 3), np.uint8), tuple("abcdefghij")
    logits = np.full((20, 10), np.nan, np.float32)
    scored = Scored(Dataset(images, labels, names), logits)
    figures = report_figures.draw_figures(scored, all_scores(scored), "test")
    assert "confidence_by_class" not in figures and "confusion_matrix" in figures
