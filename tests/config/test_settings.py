"""The table of settings: complete, consistent and used."""

import ast
import pathlib

from vit_jax.config.settings import FIELDS
from vit_jax.models import ResNet, ViT
from vit_jax.models.mae import MaskedAutoencoder

ROOT = pathlib.Path(__file__).parents[2]


def test_every_default_is_allowed():
    for key, field in FIELDS.items():
        assert field.convert(field.default) == field.default, key


def test_every_setting_says_what_it_does():
    for key, field in FIELDS.items():
        assert field.meaning[0].isalpha() and field.meaning.endswith("."), key


def test_every_setting_is_read():
    """The code has GROUP.NAME somewhere, or a model has a field of that name."""
    aliases = {
        "": {"config"},
        "optim": {"c"},
        "augment": {"config"},
        "early_stopping": {"rule"},
        "pretrained": {"asked"},
    }
    chains = set()
    for path in (ROOT / "vit_jax").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                owner = node.value
                chains.add(
                    (getattr(owner, "attr", getattr(owner, "id", "")), node.attr)
                )
            # data/statistics.py reads mean and std by name.
            elif isinstance(node, ast.Constant) and path.parent.name == "data":
                chains.add(("data", node.value))
    networks = (ViT, ResNet, MaskedAutoencoder)
    fields = {field for model in networks for field in model.__dataclass_fields__}
    unread = []
    for key in FIELDS:
        group, _, name = key.rpartition(".")
        owners = {group, f"config_{group}"} | aliases.get(group, set())
        by_model = group in ("model", "mae") and name in fields
        if not by_model and not any((owner, name) in chains for owner in owners):
            unread.append(key)
    assert set(unread) <= {"model.name"}, unread
    # The model's name is a key of a mapping there.
    assert 'config_model["name"]' in (ROOT / "vit_jax/models/make.py").read_text()
