"""ROC curves of few and of many classes."""

import math
import types

import numpy as np
import pytest
from matplotlib.colors import to_hex

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


@pytest.mark.parametrize("num_classes, others", [(10, 0), (11, 3), (100, 92)])
def test_of_many_roc_curves_the_lowest_and_the_highest_are_named(num_classes, others):
    line = np.array([0.0, 1.0])
    areas = np.random.default_rng(0).permutation(num_classes) / num_classes
    curves = [
        types.SimpleNamespace(false_positive_rate=line, true_positive_rate=line, auc=x)
        for x in areas.tolist()
    ]
    names = [f"c{area:.4f}" for area in areas]
    figure = roc.roc_curves(curves, names, 0.5)
    lines = figure.axes[1].lines
    legend = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    legend.remove("random (0.5)")
    if others:
        assert f"8 of {num_classes} classes" in figure.get_suptitle()
        legend.remove("other classes")
        low = np.sort(areas)
        expected = [f"c{x:.4f} ({x:.4f})" for x in (*low[:4], *low[-4:])]
    else:
        expected = [f"{name} ({x:.4f})" for name, x in zip(names, areas, strict=True)]
    assert legend == expected
    # Every class has its curve, and each name a look of its own.
    assert sum(len(line.get_xdata()) == 2 for line in lines) == num_classes
    named = [line for line in lines if line.get_label() in legend]
    assert len(named) == num_classes - others
    assert len({to_hex(line.get_color()) for line in lines[:-1]}) == len(named) + bool(
        others
    )
