"""Figures of a dataset: the sizes of its classes and its pixel values."""

import numpy as np
import pytest

from vit_jax.figures import dataset, style

NAMES = ("cat", "dog", "ship")


@pytest.mark.parametrize("channels", [1, 3])
def test_channel_histograms(tmp_path, channels):
    counts = np.zeros((channels, 256), np.int64)
    counts[:, 10], counts[:, 200] = 1, 3
    figure = dataset.channel_histograms(
        counts, np.full(channels, 152.5), np.full(channels, 82.3)
    )
    names = ["red", "green", "blue"] if channels == 3 else ["grey"]
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [f"{name}: mean 152.5, std 82.3" for name in names]
    for axes in figure.axes:
        assert axes.lines[0].get_xdata()[0] == 152.5
        (area,) = axes.collections
        assert area.get_datalim(axes.transData).ymax == 75  # per cent
    assert style.save(figure, tmp_path / "h.png").stat().st_size > 3_000
