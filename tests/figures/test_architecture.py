"""The drawing of a network."""

import pytest

from tests.interpret.descriptions import describe, flat
from tests.rows import slow
from vit_jax.figures import architecture as figures
from vit_jax.figures import style
from vit_jax.figures.architecture import Branch


@pytest.mark.parametrize(
    "name, settings", [("vit_192x9", {"depth": 2}), slow("resnet50", {})]
)
def test_the_figure_says_all_of_it(tmp_path, name, settings):
    described, _ = describe(name, **settings)
    figure = figures.architecture(described, title=f"{'x' * 100}\n1,234,567 parameters")
    path = style.save(figure, tmp_path / "a.png")
    assert path.stat().st_size > 30_000
    assert (
        figure.texts[0].get_text().endswith("…" + "x" * 31 + "\n1,234,567 parameters")
    )
    (axes,) = figure.axes
    shown = [text.get_text() for text in axes.texts]
    for part in (*described.parts, *flat(described.block)):
        for text in (part.name, *part.lines, part.output):
            assert text in shown
        assert not part.num_params or f"{part.num_params:,}" in shown
    assert described.block_title in shown and described.block_input in shown
    assert shown.count("+") == sum(isinstance(i, Branch) for i in described.block)
    # Nothing sticks out of the figure, and an inch of the drawing is one inch.
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    for text in (*axes.texts, figure.texts[0]):
        box = text.get_window_extent()
        assert 0 <= box.x0 <= box.x1 <= width and 0 <= box.y0 <= box.y1 <= height
    (x0, _), (x1, _) = axes.transData.transform([(0, 0), (1, 0)])
    assert x1 - x0 == pytest.approx(figure.dpi, rel=0.1)
