"""Training curves: which panels and lines there are, and what they show."""

import numpy as np

from vit_jax.figures import history, style

EPOCHS = np.array([0.5, 1.0, 1.5, 2.0])
CURVES = {
    "epoch": EPOCHS,
    "train_loss": np.array([2.0, 1.5, 1.2, 1.0]),
    "val_loss": np.array([np.nan, 1.6, np.nan, 1.1]),
    "val_accuracy": np.array([np.nan, 0.4, np.nan, 0.6]),
    "learning_rate": np.full(4, 1e-3),
    "step_seconds": np.full(4, 0.02),
}


def _panels(figure):
    return {axes.get_title(): axes for axes in figure.axes}


def test_panels_and_lines(tmp_path):
    figure = history.training_curves(CURVES, steps_per_epoch=300)
    panels = _panels(figure)
    assert list(panels) == ["Loss", "Accuracy", "Learning rate", "Time"]
    train, val = panels["Loss"].lines
    assert [train.get_label(), val.get_label()] == ["train", "val"]
    np.testing.assert_array_equal(train.get_xdata(), EPOCHS)
    np.testing.assert_array_equal(val.get_xdata(), [1, 2])
    np.testing.assert_array_equal(val.get_ydata(), [1.6, 1.1])
    (accuracy,) = panels["Accuracy"].lines
    np.testing.assert_allclose(accuracy.get_ydata(), [40, 60])
    assert accuracy.get_color() == val.get_color()
    np.testing.assert_allclose(panels["Time"].lines[0].get_ydata(), 20)
    for name in ("Learning rate", "Time"):
        assert panels[name].get_ylim()[0] == 0
    assert panels["Time"].get_ylabel() == "milliseconds per step"
    assert all(axes.get_xlabel() == "epoch" for axes in figure.axes)
    assert style.save(figure, tmp_path / "curves.png").stat().st_size > 10_000
    # Saving lays out the second scale.
    (right,) = panels["Time"].child_axes
    assert right.get_ylabel() == "seconds per epoch"
    scales = np.divide(right.get_ylim(), panels["Time"].get_ylim()[1])
    np.testing.assert_allclose(scales, [0, 0.3])


def test_all_rates_and_the_selected_checkpoint():
    curves = CURVES | {"muon_learning_rate": np.full(4, 2e-2)}
    panels = _panels(history.training_curves(curves, scored_epoch=1.5))
    rates = {line.get_label(): line for line in panels["Learning rate"].lines}
    assert list(rates) == ["learning rate", "Muon"]
    assert panels["Learning rate"].get_yscale() == "log"
    np.testing.assert_array_equal(rates["Muon"].get_ydata(), 2e-2)
    for name in ("Loss", "Accuracy"):
        mark = panels[name].lines[-1]
        assert mark.get_label() == "scored" and mark.get_xdata() == [1.5, 1.5]
    assert len(panels["Time"].lines) == 1


def test_mixed_images_have_an_accuracy_of_their_own():
    curves = CURVES | {"train_weighted_accuracy": np.array([0.1, 0.2, 0.3, 0.4])}
    _, weighted = _panels(history.training_curves(curves))["Accuracy"].lines
    assert weighted.get_label() == "train, weighted"
    np.testing.assert_allclose(weighted.get_ydata(), [10, 20, 30, 40])


def test_every_panel_marks_where_a_later_stage_begins():
    figure = history.training_curves(CURVES, stage_epochs=[0.75, 1.25])
    for axes in figure.axes:
        assert [line.get_xdata()[0] for line in axes.lines[-2:]] == [0.75, 1.25]
        assert len(set(axes.lines[-1].get_xdata())) == 1


def test_one_measurement_is_a_visible_dot():
    figure = history.training_curves({"epoch": [1.0], "val_accuracy": [0.5]})
    assert figure.axes[0].lines[0].get_marker() == "o"


def test_rates_far_apart_are_numbers_and_no_formulas():
    curves = CURVES | {"muon_learning_rate": np.array([2e-2, 1e-3, 1e-4, 1e-6])}
    figure = history.training_curves(curves)
    figure.canvas.draw()
    labels = [t.get_text() for t in _panels(figure)["Learning rate"].get_yticklabels()]
    assert "0.001" in labels and "0.0001" in labels
    assert not any("$" in label for label in labels)
