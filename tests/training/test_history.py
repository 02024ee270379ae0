import pytest

from vit_jax.config import make_config
from vit_jax.training.history import History


def history_of(name, values):
    history = History()
    for step, value in enumerate(values, start=1):
        history.add_evaluation(step, {"accuracy": 0.0, "loss": 0.0} | {name: value})
    return history


@pytest.mark.parametrize(
    "losses, scale",
    [
        ([], 1.0),
        ([1.0, 0.9, 0.8, 0.7], 1.0),
        ([1.0, 1.0], 1.0),
        ([1.0, 1.0, 1.0], 0.5),
        ([1.0, 1.1, 0.5, 0.6], 1.0),  # the count starts anew with a lower loss
        ([1.0, 1.0, 1.0, 1.0, 1.0], 0.25),
        ([1.0, 0.9999, 0.9998], 0.5),  # lower, but by less than 1 in 1,000
    ],
)
def test_the_plateau_rule(losses, scale):
    rule = {"plateau_factor": 0.5, "plateau_patience": 2, "plateau_min_delta": 1e-3}
    config = make_config({"schedule": {"name": "plateau", **rule}})
    assert history_of("loss", losses).lr_scale(config.schedule) == scale
    assert history_of("loss", losses).lr_scale(make_config({}).schedule) == 1


@pytest.mark.parametrize(
    "accuracies, patience, target, stops",
    [
        ([], 1, 0.5, False),
        ([0.5, 0.4], 0, None, False),
        ([0.5, 0.4], 1, None, True),
        ([0.5, 0.4], 2, None, False),
        ([0.5, 0.4, 0.5], 2, None, True),  # An equal accuracy is no improvement.
        ([0.5, 0.4, 0.6], 2, None, False),
        ([0.5, 0.9], 0, 0.9, True),
        ([0.9, 0.5], 0, 0.9, True),  # The best so far reaches the target.
    ],
)
def test_early_stopping(accuracies, patience, target, stops):
    rule = make_config({"early_stopping": {"patience": patience, "target": target}})
    history = history_of("accuracy", accuracies)
    assert history.last_evaluated_step == (len(accuracies) or -1)
    assert history.should_stop(rule.early_stopping) == stops
