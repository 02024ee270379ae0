"""Durations become steps."""

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


def test_what_comes_every_few_steps_comes_at_the_end_too(tiny_config):
    """It is counted from the beginning of the stage."""
    plan = make_plan(tiny_config(), 1000, 40)
    assert [step for step in range(41, 47) if plan.is_due(step, 4)] == [44, 46]


def test_the_plan_of_a_later_stage_ends_where_it_began_plus_its_length(tiny_config):
    first, later = (make_plan(tiny_config(), 1000, step) for step in (0, 40))
    assert (first.last_step, later.last_step) == (6, 46)
    assert later.total_steps == first.total_steps == 6
