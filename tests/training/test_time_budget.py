"""A training whose length is a time."""

import signal

import pytest

from tests.training.made import differing, newest
from vit_jax.errors import UserError
from vit_jax.parallel.signals import Interrupted
from vit_jax.runs.folder import RunFolder
from vit_jax.training import logs
from vit_jax.training.experiment import make_experiment
from vit_jax.training.scoring import describe_dataset
from vit_jax.training.time_budget import set_num_steps
from vit_jax.training.train import train_and_evaluate

pytestmark = pytest.mark.usefixtures("no_curves")


@pytest.mark.slow
def test_the_steps_are_measured_once_and_resume_is_exact(
    tiny_config, tmp_path, monkeypatch
):
    config = tiny_config(
        num_steps=None, time_budget="2 CPU seconds", schedule__name="linear",
        eval_every="50%", checkpoint_every="50%", schedule__warmup="10%",
    )  # fmt: skip
    for part in (1, 2):  # the evaluation is between them
        with monkeypatch.context() as patch, pytest.raises(Interrupted):
            patch.setattr(logs.TrainLog, "add", _stopping(tmp_path / "pieces", part))
            train_and_evaluate(config, tmp_path / "pieces")
    num_steps = RunFolder(tmp_path / "pieces").read("config")["num_steps"]
    pieces = train_and_evaluate(config, tmp_path / "pieces")
    assert pieces["num_steps"] == num_steps > 20
    # A tiny step's time varies, but not by this much.
    assert 0.4 < pieces["cpu_seconds"] < 8
    last = [r for r in RunFolder(tmp_path / "pieces").read_metrics() if "loss" in r]
    rates = [r["learning_rate"] for r in last if r["split"] == "train"]
    assert rates[-1] < 0.02 * max(rates)

    config.time_budget, config.num_steps = None, num_steps
    whole = train_and_evaluate(config, tmp_path / "w")
    assert whole["test"] == pieces["test"] and whole["best_step"] == pieces["best_step"]
    assert not differing(newest(tmp_path / "w"), newest(tmp_path / "pieces"))


def test_a_number_of_steps_replaces_the_budget(tiny_config, tmp_path, capfd):
    config = tiny_config(num_steps=6, time_budget="1 hour")
    changed = set_num_steps(config, {}, RunFolder(tmp_path / "run"), False)
    # Runs of different lengths are no seeds of one recipe, so the budget is dropped.
    assert (changed.num_steps, changed.time_budget) == (6, None)
    printed = "".join(capfd.readouterr())
    assert "config.num_steps=6 replaces config.time_budget" in printed


def _stopping(workdir, part):
    """`TrainLog.add`, which stops the run once at `part` thirds of its steps."""
    original, stopped = logs.TrainLog.add, []

    def add(log, step, num_steps, metrics):
        total_steps = RunFolder(workdir).read("config")["num_steps"]
        if step >= part * total_steps / 3 and not stopped:
            stopped.append(step)
            signal.raise_signal(signal.SIGTERM)
        original(log, step, num_steps, metrics)

    return add


def test_a_number_that_is_given_or_stored_stays(tiny_config, tmp_path):
    config = tiny_config(time_budget="1 minute", num_steps=7)
    folder = RunFolder(tmp_path)
    folder.create()
    folder.write("config", config.to_dict())
    (folder.checkpoints / "3").mkdir(parents=True)
    assert set_num_steps(config, {}, folder, False) == config
    config = tiny_config(time_budget="1 minute", num_steps=None)
    assert set_num_steps(config, {}, folder, False).num_steps == 7
    assert config.num_steps is None
    longer = set_num_steps(
        tiny_config(time_budget="1 minute", num_steps=9), {}, folder, True
    )
    assert (longer.num_steps, longer.time_budget) == (9, None)
    assert set_num_steps(tiny_config(), {}, folder, False).num_steps == 6


def test_a_number_of_a_start_that_saved_nothing_is_measured_anew(
    tiny_config, splits, tmp_path, monkeypatch
):
    def compiling(*_):
        raise InterruptedError

    monkeypatch.setattr("vit_jax.training.dispatch.compile_training", compiling)
    folder = RunFolder(tmp_path)
    folder.create()
    folder.write("config", tiny_config(num_steps=7).to_dict())
    config = tiny_config(time_budget="1 minute", num_steps=None)
    with pytest.raises(InterruptedError):
        set_num_steps(config, splits, folder, False)


def test_another_budget_is_refused_before_anything_is_compiled(
    tiny_run, tiny_config, monkeypatch
):
    monkeypatch.setattr("vit_jax.training.dispatch.compile_training", None)
    config = tiny_config(
        num_steps=None, time_budget="1 minute", data__subset_test_per_class=5
    )
    with pytest.raises(UserError, match="time_budget: None -> '1 minute'"):
        train_and_evaluate(config, tiny_run[0])


def test_a_budget_for_a_run_of_epochs_is_refused_as_another_setting(
    tiny_config, splits, tmp_path
):
    changes = {"num_steps": None, "schedule__warmup": "1 epoch"}
    folder = RunFolder(tmp_path)
    folder.create()
    folder.write("config", tiny_config(**changes).to_dict())
    (folder.checkpoints / "3").mkdir(parents=True)
    config = tiny_config(time_budget="1 minute", **changes)
    folder.write("dataset", describe_dataset(splits))
    with pytest.raises(UserError, match="whose length is no number of steps"):
        train_and_evaluate(config, tmp_path)


def test_processor_time_of_a_gpu_is_refused(tiny_config, tmp_path, monkeypatch):
    monkeypatch.setattr("vit_jax.models.backend.platform", lambda: "gpu")
    config = tiny_config(time_budget="1 CPU minute", num_steps=None)
    with pytest.raises(UserError, match=r"'1 CPU minute'.*gpu.*without \"CPU\""):
        set_num_steps(config, {}, RunFolder(tmp_path), False)


def test_only_a_training_measures(tiny_config, splits):
    config = tiny_config(time_budget="1 minute", num_steps=None)
    with pytest.raises(UserError, match=r"time_budget is '1 minute'.*num_steps"):
        make_experiment(config, splits)
