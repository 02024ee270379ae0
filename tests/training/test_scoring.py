"""Scores of a split count every example once, and describe each class."""

import jax
import numpy as np
import pytest

from tests.analysis.made import all_scores, make_scored
from tests.rows import slow
from vit_jax import data
from vit_jax.analysis import report_figures
from vit_jax.parallel import mesh as meshes
from vit_jax.runs.load import load_run
from vit_jax.training import scoring


def test_auc_is_in_the_scores():
    scores = scoring.describe_scores(*vars_of(make_scored(wrong=[0])))
    # Class "a" loses one of 4 examples to "b", with a score below all of a's and equal
    # to the 8 of the others: (3 + 1/2) / 4.
    assert scores["per_class"]["a"]["auc"] == pytest.approx(0.875)
    assert scores["macro"]["auc"] == pytest.approx(
        np.mean([row["auc"] for row in scores["per_class"].values()])
    )


def test_confidence_is_in_the_scores_by_true_class():
    scored = make_scored(wrong=[0, 1, 4, 7, 10])
    scored.logits[3] *= 0.5
    rows = scoring.describe_scores(*vars_of(scored))["per_class"]
    sure, less_sure = (1 / (1 + 2 * np.exp(-logit)) for logit in (5, 2.5))
    # Three of "a" are right, one with a lower confidence; "b" is never right.
    assert rows["a"]["confidence_right"] == pytest.approx((2 * sure + less_sure) / 3)
    assert rows["a"]["confidence_wrong"] == pytest.approx(sure)
    assert rows["b & <c>"]["confidence_right"] is None
    assert rows["b & <c>"]["confidence_wrong"] == pytest.approx(sure)
    assert rows["d"]["confidence_wrong"] is None
    figures = report_figures.draw_figures(scored, all_scores(scored), "test")
    axes = figures["confidence_by_class"].axes[0]
    heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
    expected = [[rows[n][f"confidence_{k}"] for n in rows] for k in ("right", "wrong")]
    np.testing.assert_allclose(heights, 100 * np.array(expected, float))
    assert axes.get_ylabel() == "mean confidence (%)"


def vars_of(scored):
    return scored.logits, scored.dataset


@pytest.mark.parametrize("batch_size", [*map(slow, (1, 7, 359, 500)), 100])
def test_every_example_is_scored_exactly_once(tiny_run, batch_size):
    run = load_run(tiny_run[0])
    images = data.load(run.config.data)["test"].images
    mesh = meshes.make_mesh(1)
    step = scoring.make_eval_step(run.config.data, run.model, mesh)
    images = images[:50] if batch_size == 1 else images
    logits = scoring.score_split(
        run.variables, images, eval_step=step, batch_size=batch_size, mesh=mesh
    )
    assert len(logits) == len(images)
    np.testing.assert_allclose(
        jax.nn.softmax(logits), run.predict(images), rtol=1e-4, atol=1e-6
    )
