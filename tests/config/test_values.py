"""Defaults, assignment and validation of settings."""

import json

import pytest

from vit_jax.config import check_config, default_config, flatten, make_config
from vit_jax.config.settings import FIELDS
from vit_jax.errors import UserError


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"optim": {"name": "adam", "weight_decay": 0.1}}, ["adamw", "0.1"]),
        ({"optim": {"name": "muon", "learning_rate": 0}}, ["learning_rate", "muon"]),
        ({"num_epochs": 0}, ["num_epochs", "0"]),
        (
            {"linear_probe": True, "model": {"distillation_token": True}},
            ["linear_probe", "second head"],
        ),
        (
            {"linear_probe": True, "distill": {"teacher": "run"}},
            ["linear_probe", "distill.teacher"],
        ),
        ({"time_budget": "1 hour", "linear_probe": True}, ["1 hour", "linear_probe"]),
    ],
)
def test_impossible_combinations(settings, words):
    with pytest.raises(UserError) as refusal:
        check_config(make_config(settings))
    for word in words:
        assert word in str(refusal.value)


def test_default_config_has_every_key():
    assert {key: field.default for key, field in FIELDS.items()} == dict(
        flatten(default_config())
    )


@pytest.mark.parametrize("check", [check_config, make_config])
def test_settings_assigned_as_attributes_are_checked(check):
    config = default_config()
    config.optim.learning_rate = 3e-4
    config.schedule.warmup = 5
    config.model.depth = 3
    check(config)
    config.model.depth = "three"
    with pytest.raises(UserError, match=r"config\.model\.depth is 'three', but must"):
        check(config)
    config.model.depth = 3
    config.optim.learning_rat = 3e-4
    with pytest.raises(UserError, match=r'did you mean "optim\.learning_rate"'):
        check(config)


def test_json_round_trip_keeps_every_value():
    config = make_config({"data": {"mean": (0.1, 0.2, 0.3)}, "model": {"depth": 3}})
    again = make_config(json.loads(json.dumps(config.to_dict())))
    assert dict(flatten(again)) == dict(flatten(config))
