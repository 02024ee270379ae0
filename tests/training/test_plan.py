"""Durations become steps."""

import math

from vit_jax.training.plan import make_plan


def test_a_plan_counts_in_steps(tiny_config):
    config = tiny_config(
        num_steps=None, num_epochs=10.0, log_every="5 steps", eval_every="1 epochs",
        checkpoint_every="20%", augment__mix_until="65%", early_stopping__after=5,
    )  # fmt: skip
    plan = make_plan(config, 1000)
    assert plan.steps_per_epoch == 62.5 and plan.total_steps == 625
    # 20% would be 125 steps, one short of two evaluations.
    assert (plan.log_every, plan.eval_every, plan.checkpoint_every) == (5, 63, 126)
    assert (plan.mix_until, plan.stop_after) == (406, 313)
    assert plan.checkpoint_seconds == math.inf


def test_checkpoints_by_the_clock_are_due_at_the_end_alone(tiny_config):
    plan = make_plan(tiny_config(num_steps=7, checkpoint_every="1.5 minutes"), 1000)
    assert plan.checkpoint_seconds == 90
    due = [step for step in range(1, 8) if plan.is_due(step, plan.checkpoint_every)]
    assert due == [7]


def test_what_comes_every_few_steps_comes_at_the_end_too(tiny_config):
    """It is counted from the beginning of the stage."""
    plan = make_plan(tiny_config(), 1000, 40)
    assert [step for step in range(41, 47) if plan.is_due(step, 4)] == [44, 46]


def test_the_plan_of_a_later_stage_ends_where_it_began_plus_its_length(tiny_config):
    first, later = (make_plan(tiny_config(), 1000, step) for step in (0, 40))
    assert (first.last_step, later.last_step) == (6, 46)
    assert later.total_steps == first.total_steps == 6


def test_steps_that_are_given_are_taken(tiny_config):
    """1 epoch is 63 steps, of which 312 and 62 are no multiple."""
    for checkpoints, evaluations in (
        (300, "7 steps"),
        (300, "1 epoch"),
        (50, "1 epoch"),
    ):
        config = tiny_config(
            eval_every=evaluations, checkpoint_every=f"{checkpoints} steps"
        )
        assert make_plan(config, 1000).checkpoint_every == checkpoints
