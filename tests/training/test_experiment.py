"""From a config to an experiment: the plan, and settings that do not fit."""

import pytest

from vit_jax import data
from vit_jax.errors import UserError
from vit_jax.training.experiment import make_experiment


@pytest.fixture(scope="module")
def splits(tiny_config):
    return data.load(tiny_config().data)


@pytest.mark.parametrize(
    "setting, value, words",
    [
        ("model.patch_size", 3, ["model.patch_size is 3", "1, 2, 4, 8"]),
        ("model.num_heads", 5, ["model.num_heads is 5", "16"]),
        ("model.name", "vitt", ['did you mean "vit"']),
        ("model.stem_channels", (8,), ["stem_channels", "conv"]),
        ("num_devices", 9, ["num_devices is 9", "8"]),
        ("schedule.warmup", "50 steps", ["50 steps", "6"]),
        ("data.mean", (0.1, 0.2), ["data.mean", "1 channel"]),
    ],
)
def test_what_does_not_fit_is_refused_before_compiling(
    tiny_config, splits, monkeypatch, setting, value, words
):
    # A compilation would raise another error.
    monkeypatch.setattr("jax.jit", None)
    config = tiny_config(**{setting.replace(".", "__"): value})
    with pytest.raises(UserError) as refusal:
        make_experiment(config, splits)
    for word in words:
        assert word in str(refusal.value)


def test_the_caller_keeps_his_config(tiny_config, splits):
    config = tiny_config()
    before = config.to_json()
    experiment = make_experiment(config, splits)
    assert config.to_json() == before
    assert experiment.config.model.mlp_ratio == 4.0
