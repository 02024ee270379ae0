"""The end of training; `test_resume` tests the loop itself, step by step."""

import dataclasses

import pytest

from vit_jax.training.history import History
from vit_jax.training.loop import is_finished


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
