import math

import pytest

from vit_jax.config import make_config
from vit_jax.training.history import History


def test_best_by_accuracy_then_loss_and_never_by_nan():
    history = History()
    evaluations = [
        (0.5, 1.0, True),
        (math.nan, math.nan, False),
        (0.6, math.nan, False),
        (0.6, 1.0, True),  # An earlier NaN does not matter.
        (0.6, 0.9, True),
        (0.6, 0.9, False),
        (0.5, 0.1, False),
    ]
    for step, (accuracy, loss, is_best) in enumerate(evaluations):
        scores = {"accuracy": accuracy, "loss": loss}
        assert history.add_evaluation(step, scores) == is_best, step
        assert history.last_evaluated_step == step


def test_the_plateau_rule_reads_the_losses():
    config = make_config({"schedule": {"name": "plateau", "plateau_patience": 1}})
    history = History()
    for step, loss in enumerate([1.0, 1.0, 0.5, 0.6], start=1):
        history.add_evaluation(step, {"accuracy": 0.0, "loss": loss})
    assert history.lr_scale(config.schedule) == pytest.approx(0.25)
    assert history.lr_scale(make_config({}).schedule) == 1.0


def test_stopping_reads_the_accuracies():
    rule = make_config({"early_stopping": {"target": 0.9}}).early_stopping
    history = History()
    assert history.last_evaluated_step == -1 and not history.should_stop(rule)
    history.add_evaluation(1, {"accuracy": 0.91, "loss": 1.0})
    assert history.should_stop(rule)
