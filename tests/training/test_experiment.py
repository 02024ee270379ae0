"""From a config to an experiment: the plan, and settings that do not fit."""

import jax
import numpy as np
import pytest

from vit_jax import data
from vit_jax.errors import UserError
from vit_jax.training import scoring
from vit_jax.training.experiment import compile_evaluation, make_experiment
from vit_jax.training.train import train_and_evaluate


@pytest.mark.parametrize(
    "setting, value, words",
    [
        ("model.patch_size", 3, ["model.patch_size is 3", "1, 2, 4, 8"]),
        ("model.num_heads", 5, ["model.num_heads is 5", "16"]),
        ("model.name", "vitt", ['did you mean "vit"']),
        ("model.stem_channels", (8,), ["stem_channels", "conv"]),
        ("schedule.warmup", "50 steps", ["50 steps", "6"]),
        ("data.mean", (0.1, 0.2), ["data.mean", "channels of the images is 1"]),
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


def test_the_random_numbers_do_not_depend_on_the_environment(tiny_config, splits):
    with jax.default_prng_impl("rbg"):
        experiment = make_experiment(tiny_config(model__dropout=0.1), splits)
        state = experiment.init_state()
    expected = make_experiment(tiny_config(model__dropout=0.1), splits).init_state()
    jax.tree.map(np.testing.assert_array_equal, state.params, expected.params)


def test_the_caller_keeps_his_config(tiny_config, splits):
    config = tiny_config()
    before = config.to_json()
    experiment = make_experiment(config, splits)
    assert config.to_json() == before
    assert experiment.config.model.mlp_ratio == 4.0


@pytest.mark.parametrize(
    "select_on, validation, name",
    [("val", 100, "val"), ("test", 0, "test"), ("nothing", 0, None)],
)
def test_the_split_that_is_evaluated(select_on, validation, name, tiny_config):
    config = tiny_config(data__select_on=select_on, data__validation=validation)
    experiment = make_experiment(config, data.load(config.data))
    assert experiment.evaluated_split == name


@pytest.mark.slow
def test_a_compiled_evaluation_gives_the_same_bits(tiny_config, splits):
    config = tiny_config(num_devices=2, optim__ema_decay=0.9, shard_params=True)
    experiment = make_experiment(config, splits)
    variables = experiment.init_state().variables
    compiled = compile_evaluation(experiment)
    for name in ("val", "test"):
        np.testing.assert_array_equal(
            compiled.score(variables, name), experiment.score(variables, name)
        )


@pytest.mark.slow
def test_the_evaluation_is_compiled_before_the_first_step(
    tiny_config, tmp_path, monkeypatch, capfd
):
    """Once for both stages and for the test split."""
    stages = [{"num_steps": 2}, {"num_steps": 2, "optim.learning_rate": 1e-4}]
    config = tiny_config(num_steps=None, schedule__warmup="0 steps")
    config.stages = stages
    traced, normalize = [], scoring.normalize

    def count(*arguments):
        traced.append(capfd.readouterr().out)
        return normalize(*arguments)

    monkeypatch.setattr(scoring, "normalize", count)
    train_and_evaluate(config, tmp_path)
    (shown,) = traced
    assert shown.endswith("compiling the evaluation ...\n")
    assert "waiting for the first step" not in shown
