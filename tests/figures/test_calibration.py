"""Reliability diagrams show the bins they are given."""

import numpy as np

from vit_jax.figures import calibration, style
from vit_jax.metrics import calibration as metrics


def _bins(scale):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 3)) * scale
    labels = rng.integers(3, size=200).astype(np.int32)
    return metrics.reliability_bins(logits, labels, 5)


def test_before_and_after(tmp_path):
    bins = {"before": _bins(5), "after": _bins(0.1)}
    figure = calibration.reliability_diagrams(bins)
    grid = np.array(figure.axes).reshape(3, 2)
    for column, (name, group) in zip(grid.T, bins.items(), strict=True):
        top, middle, bottom = column
        error = 100 * group.calibration_error
        assert top.get_title() == f"{name}: ECE {error:.2f}%"
        heights = [[bar.get_height() for bar in axes.patches] for axes in column]
        filled = group.counts > 0
        np.testing.assert_allclose(heights[0], 100 * group.accuracy)
        np.testing.assert_allclose(
            heights[1], 100 * (group.accuracy - group.confidence)
        )
        np.testing.assert_array_equal(heights[2], group.counts)
        texts = [text.get_text() for text in bottom.texts]
        assert texts == [str(n) if n else "" for n in group.counts]
        diagonal, dots = top.lines
        assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 100]
        np.testing.assert_allclose(
            dots.get_xdata()[filled], 100 * group.confidence[filled]
        )
        # Overconfident bins have a colour of their own and lie below zero.
        for bar, height in zip(middle.patches, heights[1], strict=True):
            if height < 0:
                assert bar.get_facecolor()[:3] == (213 / 255, 94 / 255, 0)
        assert bottom.get_xlabel() == "confidence (%)"
    assert bins["before"].calibration_error > bins["after"].calibration_error
    assert style.save(figure, tmp_path / "r.png").stat().st_size > 10_000
    named = calibration.reliability_diagrams(bins, details=["NLL 1", "NLL 2"])
    assert named.axes[1].get_title().endswith("\nNLL 2")
