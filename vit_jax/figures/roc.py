"""Receiver operating characteristic (ROC) curves."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vit_jax.figures import style


def roc_curves(
    curves: Sequence[Any], class_names: Sequence[str], macro_auc: float
) -> Figure:
    """One `metrics.roc.RocCurve` for each class; random guessing is diagonal.

    The right panel shows the same on a logarithmic axis, since the curves of a good
    model differ where there are few false positives. Of more than ten classes the four
    with the lowest and the four with the highest area are named, and the others grey;
    of fewer, a class whose area is NaN is named without a curve.
    """
    areas = np.array([curve.auc for curve in curves])
    # Of more classes than colours most are grey, which then names none.
    most = len(style.PALETTE) if len(curves) <= len(style.PALETTE) else 8
    shown, note = style.shown_classes("AUC", areas, most)
    others = [
        curve
        for index, curve in enumerate(curves)
        if index not in shown and not math.isnan(curve.auc)
    ]
    title = f"ROC curves, each class against the others{note}"
    figure = style.new_figure(9.6, 4.2, title)
    whole, magnified = figure.subplots(1, 2, sharey=True)
    names = style.legend_names(class_names)
    for axes in (whole, magnified):
        style.label_axes(axes, "", "false positive rate (%)", "true positive rate (%)")
        for curve in others:
            _draw_curve(axes, curve, color="0.85", linewidth=0.6)
        for place, index in enumerate(shown):
            area = curves[index].auc
            area = "no curve" if math.isnan(area) else f"{area:.4f}"
            look = {"color": style.PALETTE[place], "ls": style.LINE_STYLES[place // 4]}
            label = f"{names[index]} ({area})"
            _draw_curve(axes, curves[index], linewidth=1.5, label=label, **look)
        if others:
            axes.plot([], [], color="0.85", label="other classes")
        random = np.geomspace(0.01, 100)
        axes.plot(random, random, ":", color=style.GREY, label="random (0.5)")
    whole.set_title(f"mean AUC {macro_auc:.4f}", fontsize=11)
    magnified.set_title("logarithmic axis", fontsize=11)
    magnified.set_xscale("log")
    magnified.set_xlim(0.02, 100)
    magnified.xaxis.set_major_formatter("{x:g}")
    magnified.set_ylabel("")
    style.legend_beside(magnified, title="class (AUC)")
    return figure


def _draw_curve(axes: Axes, curve: Any, **look) -> None:
    x, y = 100 * curve.false_positive_rate, 100 * curve.true_positive_rate
    axes.plot(x, y, **look)
