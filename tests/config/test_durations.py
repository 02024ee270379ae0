import pytest

from vit_jax.config.durations import (
    parse_duration,
    parse_interval,
    parse_time_budget,
    to_steps,
)
from vit_jax.errors import UserError


@pytest.mark.parametrize(
    "value, steps",
    [
        ("300 steps", 300),
        ("1 step", 1),
        ("2 epochs", 703),  # 2 * 351.5625, rounded half up
        ("1.5 epochs", 527),
        ("10%", 100),
        ("12.55 %", 126),
        (2, 703),
        (0.5, 176),
        ("0 steps", 0),
    ],
)
def test_to_steps(value, steps):
    assert to_steps(value, steps_per_epoch=351.5625, total_steps=1000) == steps


@pytest.mark.parametrize(
    "value",
    ["", "5", "5 hours", "-1 epochs", -1, float("nan"), True, "1.5 steps"],
)
def test_refuses_what_is_no_duration(value):
    with pytest.raises(UserError):
        parse_duration(value)


def test_length_of_training_cannot_be_a_fraction_of_itself():
    with pytest.raises(UserError, match="fraction"):
        to_steps("50%", steps_per_epoch=10)


@pytest.mark.parametrize(
    ("value", "seconds", "of_cpu"),
    [
        ("15 minutes", 900, False),
        ("30 CPU minutes", 1800, True),
        ("1.5 cpu hours", 5400, True),
        ("90 seconds", 90, False),
    ],
)
def test_time_budgets(value, seconds, of_cpu):
    assert parse_time_budget(value) == (seconds, of_cpu)


def test_an_interval_is_a_duration_or_wall_clock_time():
    assert parse_interval("2 minutes") == (120, "seconds")
    assert parse_interval("5 epochs") == parse_interval(5) == (5, "epochs")
    for value in ("2 CPU minutes", "0 seconds", "2 days", ""):
        with pytest.raises(UserError, match=r"is not a (duration|time)"):
            parse_interval(value)
