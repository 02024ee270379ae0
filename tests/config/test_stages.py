import json

import pytest

from vit_jax.config import apply_overrides, check_config, make_config
from vit_jax.config.stages import stage_configs
from vit_jax.errors import UserError

STAGES = (
    {"num_epochs": 10, "optim.trainable": "head", "schedule.name": "constant"},
    {"num_steps": 50, "optim.learning_rate": 1e-5},
)


def test_each_stage_has_its_own_settings_and_shares_the_rest():
    config = make_config({"stages": STAGES, "num_steps": 7, "batch_size": 32})
    first, second = stage_configs(config)
    assert (first.num_epochs, first.num_steps) == (10, None)
    assert (second.num_epochs, second.num_steps) == (100, 50)
    assert first.optim.trainable == "head" and second.optim.trainable == "all"
    assert first.schedule.name == "constant"
    assert second.schedule.name == "warmup_cosine"
    assert second.optim.learning_rate == 1e-5
    assert first.batch_size == second.batch_size == 32
    assert first.stages == second.stages == ()
    assert config.optim.trainable == "all"


def test_without_stages_the_run_is_one():
    config = make_config({"num_steps": 7})
    (only,) = stage_configs(config)
    assert only.to_dict() == config.to_dict()


def test_stages_and_lists_survive_json():
    config = make_config({"stages": STAGES, "data": {"mean": (0.1, 0.2, 0.3)}})
    again = make_config(json.loads(json.dumps(config.to_dict())))
    assert again.to_dict() == config.to_dict()


def test_the_command_line_changes_one_setting_of_one_stage():
    config = make_config({"stages": STAGES})
    arguments = [
        "--config.stages.0.num_epochs=1e1",
        "--config.stages.1.optim.trainable=last 2 blocks",
        "--config.stages.1.early_stopping.patience", "8",
    ]  # fmt: skip
    changed = apply_overrides(config, arguments)
    assert changed.stages[0]["num_epochs"] == 10
    assert changed.stages[1] == STAGES[1] | {
        "optim.trainable": "last 2 blocks", "early_stopping.patience": 8,
    }  # fmt: skip
    assert config.stages == STAGES


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ("head", "must be a list of mappings"),
        ([3], "must be a list of mappings"),
        ([{"num_epochs": 1, "model.depth": 3}], "sets model.depth, which holds for"),
        ([{"num_epochs": 1, "optim.ema_decay": 0.9}], "holds for a whole run"),
        ([{"num_epochs": 1, "optim.lerning_rate": 3}], "did you mean"),
        ([{"num_epochs": 1, "num_epoch": 3}], r"stages\.0\.num_epoch .*num_epochs"),
        ([{"num_epochs": 1, 3: 3}], r"no setting config\.stages\.0\.3"),
        ([{"num_epochs": -1}], r"config\.stages\.0\.num_epochs is -1"),
    ],
)
def test_wrong_stages_are_refused_in_a_sentence(stages, words):
    with pytest.raises(UserError, match=words):
        make_config({"stages": stages})


def test_every_stage_needs_a_length_and_is_checked():
    with pytest.raises(UserError, match=r"stages\.0 has no num_epochs and num_steps"):
        check_config(make_config({"stages": [{"optim.trainable": "head"}]}))
    both = {"num_epochs": 1, "num_steps": 100}
    with pytest.raises(UserError, match=r"stages\.0 has both num_epochs and num_steps"):
        check_config(make_config({"stages": [both]}))
    # On the command line one length takes the place of the other.
    config = make_config({"stages": [{"num_epochs": 1}]})
    config = apply_overrides(config, ["--config.stages.0.num_steps=100"])
    (stage,) = stage_configs(config)
    assert stage.num_steps == 100 and dict(config.stages[0]) == {"num_steps": 100}
    config = apply_overrides(config, ["--config.stages.0.num_epochs=2"])
    (stage,) = stage_configs(config)
    assert stage.num_steps is None and stage.num_epochs == 2
    adam = {"num_epochs": 1, "optim.name": "adam"}
    with pytest.raises(UserError, match="adam has none"):
        check_config(make_config({"stages": [{"num_epochs": 1}, adam]}))
    with pytest.raises(UserError, match=r"no config\.stages\.1\.num_epochs.*stages\.0"):
        apply_overrides(
            make_config({"stages": [{"num_epochs": 1}]}),
            ["--config.stages.1.num_epochs=3"],
        )
