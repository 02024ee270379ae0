"""Profiles of a few dispatches of a run."""

import signal

import pytest

from vit_jax.parallel.signals import Interrupted
from vit_jax.training.logs import TrainLog
from vit_jax.training.profile import busy_seconds
from vit_jax.training.train import train_and_evaluate

pytestmark = pytest.mark.usefixtures("no_curves")


@pytest.mark.slow
def test_a_profile_of_steady_training_is_written_into_the_run(
    tiny_config, tmp_path, capsys
):
    train_and_evaluate(
        tiny_config(eval_every="6 steps", checkpoint_every="6 steps"),
        tmp_path,
        profile=True,
    )
    (trace,) = (tmp_path / "profile").rglob("*.xplane.pb")
    busy, span = busy_seconds(trace)
    assert 0 < busy <= span
    assert "the device worked in" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_is_too_short_for_a_profile_says_so(tiny_config, tmp_path, capsys):
    config = tiny_config(num_steps=2, eval_every="2 steps", checkpoint_every="2 steps")
    train_and_evaluate(config, tmp_path, profile=True)
    assert "--profile has recorded nothing" in "".join(capsys.readouterr())
    train_and_evaluate(config, tmp_path, profile=True)
    assert "because no step is left to do" in "".join(capsys.readouterr())


@pytest.mark.slow
def test_a_profile_ends_with_whatever_ends_the_run(tiny_config, tmp_path, monkeypatch):
    """Also where an evaluation follows every dispatch, and after an interruption."""
    original = TrainLog.add

    def add(self, step, num_steps, metrics):
        if step == 4:
            signal.raise_signal(signal.SIGTERM)
        original(self, step, num_steps, metrics)

    monkeypatch.setattr(TrainLog, "add", add)
    config = tiny_config(eval_every="6 steps", checkpoint_every="6 steps")
    with pytest.raises(Interrupted):
        train_and_evaluate(config, tmp_path / "cut", profile=True)
    monkeypatch.undo()
    train_and_evaluate(
        tiny_config(eval_every="1 steps"), tmp_path / "whole", profile=True
    )
    assert list((tmp_path / "whole" / "profile").rglob("*.xplane.pb"))
