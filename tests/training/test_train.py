"""A whole run: which checkpoint its results are of."""

import pytest

from vit_jax import evaluate
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run
from vit_jax.training.train import train_and_evaluate


@pytest.fixture(scope="module")
def last_epoch_run(tiny_config, tmp_path_factory):
    """(folder, results) of a run that holds nothing out and selects nothing."""
    workdir = tmp_path_factory.mktemp("runs") / "last"
    config = tiny_config(data__validation=0, data__select_on="nothing")
    return workdir, train_and_evaluate(config, workdir)


@pytest.mark.slow
def test_nothing_selected(last_epoch_run):
    workdir, results = last_epoch_run
    assert results["selected_on"] == "nothing" and results["val"] is None
    assert results["best_step"] == results["num_steps"] == 6
    splits = {record["split"] for record in RunFolder(workdir).read_metrics()}
    assert splits == {"train"}, "the test split is scored once, at the end"
    assert load_run(workdir).step == 6, "best is the last where nothing was selected"
    assert train_and_evaluate(load_run(workdir).config, workdir) == results


@pytest.mark.slow
def test_report_where_nothing_was_held_out(last_epoch_run):
    workdir, _ = last_epoch_run
    evaluate.main([f"--workdir={workdir}", "--report"])
    test = RunFolder(workdir).read("results")["test"]
    assert test["calibration"]["after"]["temperature"] == 1
    assert test["generalization_gap"] is not None
    assert (workdir / "report.html").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule__name": "plateau"},
        {"early_stopping__patience": 2},
        {"early_stopping__target": 0.9},
    ],
)
def test_rules_that_wait_for_evaluations_need_some(tiny_config, tmp_path, changes):
    config = tiny_config(data__validation=0, data__select_on="nothing", **changes)
    with pytest.raises(UserError, match="no images are held out"):
        train_and_evaluate(config, tmp_path)


@pytest.mark.slow
def test_validation_that_selects_nothing(tiny_config, tmp_path):
    results = train_and_evaluate(tiny_config(data__select_on="nothing"), tmp_path)
    assert results["best_step"] == 6 and results["val"]["num_examples"] == 100
