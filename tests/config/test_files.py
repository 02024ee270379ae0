"""Settings: defaults, files, the command line, and what is refused."""

import ast
import pathlib

import pytest

from vit_jax.config import (
    apply_overrides,
    check_config,
    default_config,
    flatten,
    load_config_file,
    make_config,
    read_saved_config,
)
from vit_jax.config.settings import FIELDS
from vit_jax.errors import UserError
from vit_jax.models import ResNet, ViT

ROOT = pathlib.Path(__file__).parents[2]


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
        ("--config.model.depth=0", ["model.depth", "0", "at least 1"]),
        ("--config.model.depth=2.5", ["model.depth", "2.5", "whole"]),
        ("--config.model.depth=True", ["model.depth", "True"]),
        ("--config.model.dropout=1.5", ["model.dropout", "1.5", "0 to 1"]),
        ("--config.model.qkv_bias=1", ["model.qkv_bias", "True or False"]),
        ("--config.optim.name=adamm", ["optim.name", "adamm", "sgd"]),
        ("--config.schedule.warmup=soon", ["schedule.warmup", "epochs"]),
        ("--config.data.validation=test", ["data.validation", "whole number"]),
        ("--config.data.select_on=tset", ["data.select_on", "one of val, test"]),
        ("--config.data.std=(0.1,0,0.1)", ["data.std", "above 0"]),
        ("--config.model.stem_channels=64", ["stem_channels", "list"]),
        ("--config.model.depth", ["needs a value"]),
        ("--config.data.mean=555", ["data.mean", "list"]),
        ("--config.seed={[]:1}", ["config.seed", "whole number"]),
        ("--config.augment.erase_area=(0.5, 0.1)", ["erase_area", "smaller first"]),
        ("--config.augment.erase_area=(0.5, 2)", ["erase_area", "at most 1"]),
        ("--config.augment.erase_fill=red", ["erase_fill", "noise"]),
        ("--cofnig.model.depth=3", ["Unknown argument"]),
    ],
)
def test_refusals_name_key_value_and_what_is_allowed(argument, words):
    with pytest.raises(UserError) as refusal:
        apply_overrides(default_config(), [argument])
    for word in words:
        assert word in str(refusal.value)


def test_overrides_have_their_proper_type_and_leave_the_original_alone():
    config = default_config()
    arguments = [
        "--config.num_epochs=3",
        "--config.model.qkv_bias=false",
        "--config.data.mean=[0.5,0.5,0.5]",
        "--config.optim.weight_decay=1e-4",
        "--config.model.width",
        "64",
        "--config.schedule.warmup=10%",
        "--config.model.depth=None",
        "--config.data.dir=2024",
    ]
    changed = apply_overrides(config, arguments)
    assert type(changed.num_epochs) is float and changed.num_epochs == 3
    assert changed.model.qkv_bias is False
    assert changed.data.mean == (0.5, 0.5, 0.5)
    assert changed.optim.weight_decay == 1e-4
    assert changed.model.width == 64 and changed.model.depth is None
    assert changed.schedule.warmup == "10%" and changed.data.dir == "2024"
    assert config.to_dict() == default_config().to_dict()


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"optim": {"name": "adam", "weight_decay": 0.1}}, ["adamw", "0.1"]),
        ({"optim": {"name": "muon", "learning_rate": 0}}, ["learning_rate", "muon"]),
        ({"num_epochs": 0}, ["num_epochs", "0"]),
        ({"augment": {"randaugment_magnitude": 31}}, ["31", "30"]),
    ],
)
def test_impossible_combinations(settings, words):
    with pytest.raises(UserError) as refusal:
        check_config(make_config(settings))
    for word in words:
        assert word in str(refusal.value)


def test_every_default_is_allowed():
    for key, field in FIELDS.items():
        assert field.convert(field.default) == field.default, key


def test_every_setting_says_what_it_does():
    for key, field in FIELDS.items():
        assert field.meaning or "one of" in field.allowed, key


def test_every_setting_is_read():
    """Somewhere in the code stands GROUP.NAME, or a model has the field."""
    aliases = {
        "": {"config"},
        "optim": {"c"},
        "augment": {"config"},
        "early_stopping": {"rule"},
    }
    chains = set()
    for path in (ROOT / "vit_jax").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                owner = node.value
                chains.add(
                    (getattr(owner, "attr", getattr(owner, "id", "")), node.attr)
                )
            # data/__init__.py reads mean and std by name.
            elif isinstance(node, ast.Constant) and path.parent.name == "data":
                chains.add(("data", node.value))
    fields = {field for model in (ViT, ResNet) for field in model.__dataclass_fields__}
    unread = []
    for key in FIELDS:
        group, _, name = key.rpartition(".")
        owners = {group, f"config_{group}"} | aliases.get(group, set())
        by_model = group == "model" and name in fields
        if not by_model and not any((owner, name) in chains for owner in owners):
            unread.append(key)
    assert set(unread) <= {"model.name"}, unread
    # The model's name is a key of a mapping there.
    assert 'config_model["name"]' in (ROOT / "vit_jax/models/__init__.py").read_text()


def test_json_round_trip_keeps_every_value():
    import json

    config = make_config({"data": {"mean": (0.1, 0.2, 0.3)}, "model": {"depth": 3}})
    again = make_config(json.loads(json.dumps(config.to_dict())))
    assert dict(flatten(again)) == dict(flatten(config))


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.py")), ids=str)
def test_config_files_import_nothing_but_ml_collections(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = (
                [node.module]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
            )
            assert names == ["ml_collections"]


def test_configs_by_name_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    by_name = load_config_file("vit_192x9:resnet18")
    by_path = load_config_file(f"{ROOT}/configs/vit_192x9.py:resnet18")
    assert by_name.to_dict() == by_path.to_dict()
    names = ", ".join(sorted(path.stem for path in (ROOT / "configs").glob("*.py")))
    for name in ("vit_digit", "/far/away/configs/vit_digits.py"):
        with pytest.raises(UserError) as refusal:
            load_config_file(name)
        assert 'did you mean "vit_digits"' in str(refusal.value)
        assert names in str(refusal.value)


def test_config_files_that_cannot_be_used(tmp_path):
    for path in ("configs/vit_cifra.py", "README.md"):
        with pytest.raises(UserError, match="no config file"):
            load_config_file(path)
    empty = tmp_path / "empty.py"
    empty.write_text("")
    with pytest.raises(UserError, match="get_config"):
        load_config_file(str(empty))
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def get_config():\n    return {'model': {'detph': 3}}\n")
    with pytest.raises(UserError, match=r"model\.depth"):
        load_config_file(str(wrong))
    with pytest.raises(UserError, match="no variants"):
        load_config_file(f"{wrong}:fast")


def test_a_run_folders_old_name_of_microbatches_is_read():
    saved = {"optim": {"name": "sgd", "accumulate_steps": 4}}
    config = read_saved_config(saved)
    assert (config.optim.num_microbatches, config.optim.name) == (4, "sgd")
    assert "accumulate_steps" in saved["optim"]  # The caller's mapping is not changed.
