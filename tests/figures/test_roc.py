"""ROC curves of few and of many classes."""

import math
import types

import numpy as np

from vit_jax.figures import roc, style
from vit_jax.metrics import roc as roc_metrics

NAMES = ("cat", "dog", "ship")


def test_roc_curves(tmp_path):
    logits = np.array([[3, 1, 0], [0, 2, 1], [2, 1, 1], [0, 1, 0]], np.float32)
    curves = roc_metrics.one_vs_rest(logits, np.array([0, 1, 1, 0], np.int32))
    macro = roc_metrics.macro_auc(curves)
    figure = roc.roc_curves(curves, NAMES, macro)
    for axes in figure.axes:
        assert len(axes.lines) == 4  # three classes and chance
        np.testing.assert_allclose(
            axes.lines[1].get_xdata(), 100 * curves[1].false_positive_rate
        )
        np.testing.assert_allclose(
            axes.lines[1].get_ydata(), 100 * curves[1].true_positive_rate
        )
    assert figure.axes[0].get_title() == f"mean AUC {macro:.4f}"
    legend = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert legend[0] == f"cat ({curves[0].auc:.4f})"
    assert legend[2] == "ship (no curve)" and math.isnan(curves[2].auc)
    assert style.save(figure, tmp_path / "roc.png").stat().st_size > 10_000


def test_roc_curves_of_100_classes_have_a_short_legend():
    line = np.array([0.0, 1.0])
    curve = types.SimpleNamespace(
        false_positive_rate=line, true_positive_rate=line, auc=0.5
    )
    figure = roc.roc_curves([curve] * 100, [f"c{i}" for i in range(100)], 0.5)
    assert len(figure.axes[0].lines) == 101
    assert len(figure.axes[1].get_legend().get_texts()) == 1
