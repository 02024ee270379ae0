"""Training curves from the records of a run."""

import numpy as np
import pytest

from vit_jax.figures import style
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.records import write_records
from vit_jax.training import curves


def test_history_series_come_from_their_records():
    records = [
        {"split": "train", "epoch": 1.0, "loss": 2.0, "learning_rate": 0.3},
        {"split": "val", "epoch": 1.0, "accuracy": 0.5, "loss": None},
        {"split": "train", "epoch": 3.0, "loss": 1.0, "learning_rate": 0.1},
    ]
    series = curves.history_series(records)
    np.testing.assert_allclose(series["learning_rate"], [0.3, np.nan, 0.1])
    np.testing.assert_allclose(series["val_loss"], [np.nan] * 3)
    np.testing.assert_allclose(series["train_loss"], [2.0, np.nan, 1.0])
    np.testing.assert_allclose(series["val_accuracy"], [np.nan, 0.5, np.nan])
    records[1]["split"] = "test"
    on_test = curves.history_series(records)
    np.testing.assert_allclose(on_test["test_accuracy"], [np.nan, 0.5, np.nan])
    assert "val_accuracy" not in on_test
    assert "train_weighted_accuracy" not in on_test
    records[2] |= {"accuracy": 0.5, "weighted_accuracy": 0.4}
    mixed = curves.history_series(records)
    np.testing.assert_allclose(mixed["train_weighted_accuracy"], [np.nan, np.nan, 0.4])
    rates = curves.history_series(records, muon_ratio=20)["muon_learning_rate"]
    np.testing.assert_allclose(rates, [6, np.nan, 2])


def test_the_figure_marks_the_stages_of_results(copied_run, tmp_path):
    folder = RunFolder(copied_run)
    results = folder.read("results")
    stages = [{"first_step": 0}, {"first_step": 3}]
    folder.write("results", results | {"stages": stages})
    figure = curves.draw_history(folder)["training_curves"]
    style.save(figure, tmp_path / "curves.png")  # which lays out the second scale
    (right,) = figure.axes[-1].child_axes
    milliseconds_per_second = figure.axes[-1].get_ylim()[1] / right.get_ylim()[1]
    steps_per_epoch = results["num_steps"] / results["num_epochs"]
    assert milliseconds_per_second == pytest.approx(1000 / steps_per_epoch, rel=0.01)
    (start, end) = figure.axes[-1].lines[-1].get_xdata()
    assert start == end
    np.testing.assert_allclose(start, results["num_epochs"] / 2)
    assert results["num_steps"] == 6


def test_the_figure_marks_the_checkpoint_that_was_scored(copied_run):
    def marked(step):
        figure = curves.draw_history(RunFolder(copied_run), step)["training_curves"]
        return figure.axes[0].lines[-1].get_xdata()[0]

    best = RunFolder(copied_run).read("results")
    assert marked(None) == pytest.approx(best["best_epoch"], abs=1e-4)
    assert marked(3) == pytest.approx(best["num_epochs"] / 2, abs=1e-4)


def test_stages_with_rates_of_their_own_have_no_rate_of_muon(copied_run):
    folder, labels = RunFolder(copied_run), []
    config = folder.read("config")
    config["optim"] |= {"name": "muon", "muon_learning_rate": 0.02}
    for stages in ([], [{"num_steps": 1}, {"optim.name": "adamw", "num_steps": 1}]):
        folder.write("config", config | {"stages": stages})
        figure = curves.draw_history(folder)["training_curves"]
        lines = [line for axes in figure.axes for line in axes.lines]
        labels.append({str(line.get_label()) for line in lines})
    assert any("uon" in label for label in labels[0])
    assert not any("uon" in label for label in labels[1])


@pytest.mark.parametrize(
    "objective, unit",
    [("classification", "nats"), ("masked_autoencoding", "mean squared error")],
)
def test_the_loss_has_the_unit_of_its_objective(copied_run, objective, unit):
    folder = RunFolder(copied_run)
    folder.write("config", folder.read("config") | {"objective": objective})
    figure = curves.draw_history(folder)["training_curves"]
    assert figure.axes[0].get_ylabel() == f"loss ({unit})"


@pytest.mark.parametrize("split", ["test", "val"])
def test_the_curves_name_the_split_that_was_scored(copied_run, split):
    folder = RunFolder(copied_run)
    records = folder.read_metrics()
    scored = [r | {"split": split} if r["split"] == "val" else r for r in records]
    write_records(copied_run / "metrics.jsonl", scored)
    figure = curves.draw_history(folder)["training_curves"]
    assert [line.get_label() for line in figure.axes[0].lines[:2]] == ["train", split]
