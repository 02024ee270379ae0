"""The end of training, and checkpoints by the clock; `test_resume` tests the loop."""

import dataclasses

import pytest

from tests.training.made import differing, interrupted, newest
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.training.history import History
from vit_jax.training.loop import is_finished
from vit_jax.training.train import train_and_evaluate

pytestmark = pytest.mark.usefixtures("no_curves")


@pytest.mark.parametrize(
    "patience, after, accuracies, step, finished",
    [
        (0, 0, [], 99, False),
        (0, 0, [], 100, True),
        (0, 0, [0.5, 0.4, 0.3], 60, False),
        (2, 0, [0.5, 0.4], 40, False),
        (2, 0, [0.5, 0.4, 0.3], 60, True),
        (2, 60, [0.5, 0.4, 0.3], 60, True),
        # Evaluations before the limit count, but they do not end the training.
        (2, 61, [0.5, 0.4, 0.3], 60, False),
        (2, 0, [], 0, False),
    ],
)
def test_a_run_ends_by_its_length_or_by_early_stopping(
    experiment, patience, after, accuracies, step, finished
):
    config = experiment.stage_config.copy_and_resolve_references()
    config["early_stopping.patience"] = patience
    plan = dataclasses.replace(experiment.plan, total_steps=100, stop_after=after)
    changed = dataclasses.replace(experiment, stage_config=config, plan=plan)
    history = History(
        [
            {"step": 20 * i, "accuracy": accuracy, "loss": 1.0}
            for i, accuracy in enumerate(accuracies, start=1)
        ]
    )
    assert is_finished(changed, history, step) == finished


@pytest.mark.slow
def test_a_plateau_that_reduces_the_rate_is_announced(tiny_config, tmp_path, capfd):
    rule = {"schedule__plateau_patience": 1, "schedule__plateau_min_delta": 0.9}
    config = tiny_config(
        schedule__name="plateau", schedule__plateau_factor=0.5, **rule,
        eval_every="2 steps",
    )  # fmt: skip
    train_and_evaluate(config, tmp_path)
    lines = "".join(capfd.readouterr()).splitlines()
    said = [line for line in lines if "learning rate is now" in line]
    # The first of the three evaluations is the lowest so far, and no step follows the
    # last one.
    assert [line.split(" times")[0].split()[-1] for line in said] == ["0.5"]


@pytest.mark.slow
def test_checkpoints_by_the_clock_change_nothing_but_their_steps(
    tiny_config, tmp_path, monkeypatch
):
    saved, save = [], Checkpoints.save

    def record(self, step, *arguments, **metrics):
        saved.append(step)
        save(self, step, *arguments, **metrics)

    monkeypatch.setattr(Checkpoints, "save", record)
    changes = {"num_steps": 6, "eval_every": "6 steps"}
    seldom = tiny_config(checkpoint_every="1 hour", **changes)
    results = train_and_evaluate(seldom, tmp_path / "seldom")
    assert saved == [6]
    saved.clear()
    often = tiny_config(checkpoint_every="0.000001 seconds", **changes)
    with interrupted():
        train_and_evaluate(often, tmp_path / "often")
    assert train_and_evaluate(often, tmp_path / "often")["test"] == results["test"]
    assert sorted({*saved}) == [1, 2, 3, 4, 5, 6]
    assert not differing(newest(tmp_path / "seldom"), newest(tmp_path / "often"))
