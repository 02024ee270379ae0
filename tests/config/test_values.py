"""Defaults, assignment and validation of settings."""

import copy
import pickle

import pytest

from vit_jax.config import (
    apply_overrides,
    check_config,
    default_config,
    flatten,
    load_config,
    load_config_file,
    make_config,
)
from vit_jax.config.settings import FIELDS
from vit_jax.config.stages import stage_configs
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
        (
            {"num_steps": 40, "stages": [{"num_epochs": 1}]},
            ["40", "stages.0.num_steps"],
        ),
        (
            {"num_epochs": 3, "stages": [{"num_epochs": 1}]},
            ["num_epochs is 3", "stages.0.num_epochs"],
        ),
    ],
)
def test_impossible_combinations(settings, words):
    with pytest.raises(UserError) as refusal:
        check_config(make_config(settings))
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize("key", ["schedule.warmup.steps", "data.mean.0", "seed.x"])
def test_a_name_below_a_setting_is_refused(key):
    with pytest.raises(UserError, match=rf"no setting config\.{key}"):
        make_config({key: 1})


@pytest.mark.parametrize("given", ["in the config", "beside it"])
@pytest.mark.parametrize(
    ("key", "value", "other", "replacing"),
    [
        ("num_epochs", 5, "num_steps", 7),
        ("num_epochs", 5, "time_budget", "1 hour"),
        ("time_budget", "1 hour", "num_steps", 7),
        ("data.validation", 500, "data.val_per_class", 7),
        ("data.validation_fraction", 0.1, "data.val_per_class", 7),
    ],
)
def test_a_length_beside_one_that_replaces_it_is_refused(
    key, value, other, replacing, given
):
    config = make_config({other: replacing} if given == "in the config" else {})
    arguments = [f"--config.{key}={value}"]
    both = [*arguments, f"--config.{other}={replacing}"]
    with pytest.raises(UserError, match=rf"{key} is '?{value}.*config\.{other}="):
        apply_overrides(config, arguments if given == "in the config" else both)
    changed = apply_overrides(config, [*arguments, f"--config.{other}=None"])
    assert changed[key] == value
    config = make_config({key: value})
    assert (
        apply_overrides(config, [f"--config.{other}={replacing}"])[other] == replacing
    )


def test_two_lengths_of_a_stage_and_one_of_a_probe_are_refused():
    stages = make_config({"stages": [{"num_epochs": 1}]})
    arguments = [f"--config.stages.0.{key}=5" for key in ("num_epochs", "num_steps")]
    with pytest.raises(UserError, match=r"stages\.0\.num_steps each give a length"):
        apply_overrides(stages, arguments)
    probe = make_config({"linear_probe": True})
    with pytest.raises(UserError, match=r"config\.linear_probe trains no step"):
        apply_overrides(probe, ["--config.num_steps=5"])
    stages = make_config({"linear_probe": True, "stages": [{"num_epochs": 1}]})
    with pytest.raises(UserError, match=r"so that config\.stages\S+ has no effect"):
        apply_overrides(stages, ["--config.stages.0.num_epochs=5"])


def test_a_time_budget_is_a_length():
    with pytest.raises(UserError, match="num_epochs is 0, but training needs a length"):
        check_config(make_config({"num_epochs": 0}))
    check_config(make_config({"num_epochs": 0, "time_budget": "1 hour"}))


@pytest.mark.parametrize(
    ("key", "value", "switch", "on"),
    [
        ("mae.mask_ratio", 0.5, "objective", "masked_autoencoding"),
        ("optim.momentum", 0.5, "optim.name", "muon"),
        ("schedule.plateau_patience", 2, "schedule.name", "plateau"),
        ("schedule.milestone_epochs", (5,), "schedule.name", "milestones"),
        ("augment.randaugment_magnitude", 5, "augment.policy", "randaugment"),
    ],
)
def test_a_change_that_another_setting_makes_idle_is_refused(key, value, switch, on):
    change = [f"--config.{key}={value}"]
    with pytest.raises(UserError, match=rf"config\.{key} is .*\.{switch}=.*{on}"):
        apply_overrides(default_config(), change)
    with pytest.raises(UserError, match=f"config.{key} is .*{on}"):
        load_config("vit_digits", {key: value})
    both = apply_overrides(default_config(), [*change, f"--config.{switch}={on}"])
    assert both[key] == value
    # A file may hold settings for a switch that it leaves off.
    check_config(make_config({key: value}))
    default = FIELDS[key].default
    assert apply_overrides(default_config(), [f"--config.{key}={default}"]) is not None


def test_a_change_that_is_idle_in_the_stages_is_refused():
    sgd = {"num_epochs": 1, "optim.name": "sgd", "optim.learning_rate": 0.1}
    config = make_config({"stages": [sgd, {"num_epochs": 1}]})
    change = ["--config.optim.momentum=0.5"]
    assert apply_overrides(config, change).optim.momentum == 0.5  # of the first
    with pytest.raises(
        UserError,
        match=r"stages\.1\.optim\.momentum .*stages\.1\.optim\.name=sgd or muon",
    ):
        apply_overrides(config, ["--config.stages.1.optim.momentum=0.5"])
    with pytest.raises(
        UserError, match=r"is sgd; change config\.stages\.0\.optim\.name"
    ):
        apply_overrides(config, ["--config.stages.0.optim.b1=0.5"])
    change = ["--config.optim.learning_rate=0.2"]
    assert apply_overrides(config, change).optim.learning_rate == 0.2
    config.stages = [sgd, sgd]
    with pytest.raises(UserError, match=r"learning_rate is 0\.2, .*has its own; set"):
        apply_overrides(config, change)


def test_stages_on_the_command_line_replace_the_length_of_the_config():
    stages = '--config.stages=[{"num_steps": 5}, {"num_epochs": 1}]'
    for before in ({"num_epochs": 40}, {"num_steps": 9}, {"time_budget": "1 hour"}):
        config = apply_overrides(make_config(before), [stages])
        check_config(config)
        assert [one.num_steps for one in stage_configs(config)] == [5, None]
    with pytest.raises(
        UserError, match=r"num_epochs is 3\.0, but each of config\.stages"
    ):
        check_config(
            apply_overrides(default_config(), [stages, "--config.num_epochs=3"])
        )


def test_idle_changes_are_named_together():
    arguments = [f"--config.mae.decoder_{key}=8" for key in ("width", "heads")]
    with pytest.raises(
        UserError, match=r"width is 8, .* leave config\S+width and config\S+heads out"
    ):
        apply_overrides(default_config(), arguments)


@pytest.mark.parametrize(
    ("setting", "switch"),
    [
        ("distill.alpha=0.3", "distill.teacher"),
        ("pretrained.head=keep", "pretrained.path"),
    ],
)
def test_settings_of_a_teacher_or_of_weights_need_it(setting, switch):
    with pytest.raises(UserError, match=f"only with config.{switch}, which is off"):
        apply_overrides(default_config(), [f"--config.{setting}"])
    both = [f"--config.{setting}", f"--config.{switch}=runs/one"]
    assert apply_overrides(default_config(), both)[switch] == "runs/one"


def test_a_probe_takes_no_settings_of_steps():
    probe = make_config({"linear_probe": True})
    with pytest.raises(UserError, match=r"learning_rate is 0\.5, .* trains no step"):
        apply_overrides(probe, ["--config.optim.learning_rate=0.5"])
    changed = apply_overrides(probe, ["--config.optim.class_weights=balanced"])
    assert changed.optim.class_weights == "balanced"


@pytest.mark.parametrize("name", ["num_epochs", "num_steps"])
def test_a_length_that_is_a_time_points_to_the_time_budget(name):
    with pytest.raises(UserError, match=r"'20 minutes'.*config\.time_budget takes"):
        make_config({name: "20 minutes"})


def test_default_config_has_every_key():
    assert {key: field.default for key, field in FIELDS.items()} == dict(
        flatten(default_config())
    )


@pytest.mark.parametrize(
    "load", [default_config, lambda: load_config_file("vit_cifar")]
)
def test_a_wrong_setting_is_refused_where_it_is_set(load):
    config = load()
    with pytest.raises(
        UserError, match=r'no setting config\.optim\.nmae .*"optim\.name"'
    ):
        config.optim.nmae = "adam"
    with pytest.raises(UserError, match=r"no setting config\.optm"):
        config.optm = {}
    with pytest.raises(
        UserError, match=r'no setting config\.warmup .*"schedule\.warmup"'
    ):
        config.warmup = 5
    with pytest.raises(UserError, match=r"config\.schedule\.warmup is \[5\], but must"):
        config.schedule.warmup = [5]
    with pytest.raises(UserError, match=r"config\.model\.depth is 'three', but must"):
        config.model.depth = "three"
    with pytest.raises(UserError, match=r"config\.schedule is 5, but is a group"):
        config.schedule = 5
    with pytest.raises(UserError, match=r'"schedule\.warmup"'):
        config.schedule = {"wramup": 5}
    with pytest.raises(UserError, match=r'"model\.depth"'):
        config["modl.depth"] = 3
    assert config == load()


def test_what_is_no_mapping_is_no_config():
    with pytest.raises(UserError, match=r"vit_digits.* is no config; give what"):
        make_config("vit_digits")


def test_a_config_is_changed_by_attribute_by_key_and_by_group():
    config = default_config()
    config["model.depth"] = 3.0
    config.schedule = {"name": "linear", "warmup": 5}
    config.update({"optim": {"b1": 0.5}}, batch_size=64)
    assert type(config.model.depth) is int and config.schedule.floor == 0
    assert (config.schedule.name, config.optim.b1) == ("linear", 0.5)
    for same in (
        config.copy_and_resolve_references(),
        copy.deepcopy(config),
        pickle.loads(pickle.dumps(config)),
    ):
        assert same == config
        same.optim.b1 = 0.25
        assert config.optim.b1 == 0.5
        with pytest.raises(UserError, match=r"optim\.b3"):
            same.optim.b3 = 0.5
    with pytest.raises(AttributeError, match="locked"):
        del config.optim.b1
