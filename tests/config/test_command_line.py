"""Settings on the command line, in every form, and the sentences of refusals."""

import argparse

import pytest

from vit_jax.config import apply_overrides, default_config, describe_fields
from vit_jax.config.command_line import add_data_flags, moved_settings
from vit_jax.config.settings import FIELDS
from vit_jax.errors import UserError


@pytest.mark.parametrize(
    "argument, words",
    [
        (
            "--config.model.depht=3",
            ['did you mean "model.depth"', "config.model.depht"],
        ),
        ("--config.modle.depth=3", ['did you mean "model.depth"']),
        ("--config.depth=3", ['did you mean "model.depth"']),
        ("--config.optim.learning_rate=nan", ["optim.learning_rate", "nan", "number"]),
        ("--config.model.depth=0", ["model.depth", "0", "from 1 to 200"]),
        ("--config.augment.randaugment_magnitude=31", ["31", "from 0 to 30"]),
        ("--config.model.depth=2.5", ["model.depth", "2.5", "whole"]),
        ("--config.model.depth=True", ["model.depth", "True"]),
        ("--config.model.dropout=1.5", ["model.dropout", "1.5", "0 to 1"]),
        ("--config.model.qkv_bias=1", ["model.qkv_bias", "True or False"]),
        ("--config.optim.name=adamm", ["optim.name", "adamm", "sgd"]),
        ("--config.schedule.warmup=soon", ["schedule.warmup", "epochs"]),
        ("--config.data.validation=test", ["data.validation", "whole number"]),
        ("--config.data.validation=10%", ["data.validation", "whole number"]),
        ("--config.data.validation_fraction=1", ["validation_fraction", "0 to 1"]),
        ("--config.data.select_on=tset", ["data.select_on", "one of val, test"]),
        ("--config.data.std=(0.1,0,0.1)", ["data.std", "above 0"]),
        ("--config.model.stem_channels=64", ["stem_channels", "list"]),
        ("--config.model.depth", ["needs a value"]),
        ("--config.data.mean=555", ["data.mean", "list"]),
        ("--config.seed={[]:1}", ["config.seed", "whole number"]),
        ("--config.augment.erase_area=(0.5, 0.1)", ["erase_area", "smaller first"]),
        ("--config.augment.erase_area=(0.5, 2)", ["erase_area", "at most 1"]),
        ("--config.augment.erase_fill=red", ["erase_fill", "float32 holds"]),
        ("--config.augment.erase_noise=True", ["only with config.augment.erase_prob,"]),
        (
            "--config.augment.mix_prob=0.5",
            ["mixup_alpha or config.augment.cutmix_alph"],
        ),
        ("--config.early_stopping.after=5", ["set config.early_stopping.patience, or"]),
        ("--cofnig.model.depth=3", ["Unknown argument"]),
        ("configs/vit.py", ["Unknown argument", "write --config=configs/vit.py"]),
    ],
)
def test_refusals_name_key_value_and_what_is_allowed(argument, words):
    with pytest.raises(UserError) as refusal:
        apply_overrides(default_config(), [argument])
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize(
    "key, text, expected",
    [
        ("num_steps", "1e3", 1000),  # a field whose default is None
        ("batch_size", "1e3", 1000),
        ("num_steps", "None", None),
        ("data.image_size", "None", None),
        ("schedule.warmup", "5", 5),  # a duration in epochs
        ("tensorboard", "true", True),
        ("tensorboard", "False", False),
        ("data.mean", "(0.1, 0.2, 0.3)", (0.1, 0.2, 0.3)),
        ("model.stem_channels", "[64, 128]", (64, 128)),
        ("augment.erase_area", "0.1,0.5", (0.1, 0.5)),
        ("augment.erase_fill", "-1", -1.0),
        ("num_epochs", "3", 3.0),
        ("data.dir", "2024", "2024"),
    ],
)
@pytest.mark.parametrize("num_arguments", [1, 2])
def test_values_in_one_argument_and_in_two(key, text, expected, num_arguments):
    argument = f"--config.{key}"
    arguments = [f"{argument}={text}"] if num_arguments == 1 else [argument, text]
    config = default_config()
    config.augment.erase_prob = 0.5  # without which two of these have no effect
    before = config.copy_and_resolve_references()
    found = apply_overrides(config, arguments)
    assert config == before
    for name in key.split("."):
        found = found[name]
    assert found == expected and type(found) is type(expected)


def test_the_list_of_settings_has_every_key_default_and_meaning():
    listed = " ".join(describe_fields().split())
    for key, field in FIELDS.items():
        entry = f"{key} = {field.default!r} {field.meaning} Allowed: {field.allowed}."
        assert entry in listed


def test_flags_become_settings_of_the_data():
    parser = argparse.ArgumentParser()
    add_data_flags(parser)
    options = parser.parse_args(["--data_dir=here", "--eval_batch_size", "7"])
    moved = {"data.dir": "here", "eval_batch_size": "7"}
    assert moved_settings(options, []) == moved
    with pytest.raises(UserError, match=r"--data_dri=x .*did you mean .--data_dir"):
        moved_settings(options, ["--data_dri=x"])


@pytest.mark.parametrize("later", ["()", '[{"num_steps": 2}]'])
def test_stages_do_not_replace_settings_that_were_given_before(later):
    first = '--config.stages=[{"num_steps": 1}, {"num_steps": 2}]'
    arguments = [first, "--config.stages.1.optim.b1=0.8", f"--config.stages={later}"]
    words = r"--config\.stages\.1\.optim\.b1 stands before --config\.stages, which"
    with pytest.raises(UserError, match=words):
        apply_overrides(default_config(), arguments)
