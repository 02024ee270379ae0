"""Receiver operating characteristic (ROC) curves."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vit_jax.figures import style

MAX_CURVES_IN_LEGEND = 12


def roc_curves(
    curves: Sequence[Any],
    class_names: Sequence[str],
    macro_auc: float,
) -> Figure:
    """One `metrics.roc.RocCurve` for each class; random guessing is diagonal.

    The right panel shows the same on a logarithmic axis, since the curves of a good
    model differ where there are few false positives. A class whose area is NaN is named
    without a curve.
    """
    figure = style.new_figure(9.6, 4.2, "ROC curves, each class against the others")
    whole, magnified = figure.subplots(1, 2, sharey=True)
    named = len(curves) <= MAX_CURVES_IN_LEGEND
    for axes in (whole, magnified):
        style.label_axes(axes, "", "false positive rate (%)", "true positive rate (%)")
        for index, (curve, name, color) in enumerate(
            zip(curves, class_names, style.colors(len(curves)), strict=True)
        ):
            area = "no curve" if math.isnan(curve.auc) else f"{curve.auc:.4f}"
            axes.plot(
                100 * curve.false_positive_rate,
                100 * curve.true_positive_rate,
                style.LINE_STYLES[index // 4 % 4],
                color=color,
                linewidth=1.5 if named else 0.6,
                label=f"{name} ({area})" if named else None,
            )
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
