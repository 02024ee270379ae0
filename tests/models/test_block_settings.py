"""The settings of a block reach every part of a ViT."""

import dataclasses

import jax.numpy as jnp

from vit_jax.models import ViT
from vit_jax.models.block_settings import BlockSettings, block_settings


def test_a_vits_own_values_are_those_of_its_blocks():
    changed = {"dtype": jnp.bfloat16}
    for field in dataclasses.fields(BlockSettings):
        if isinstance(field.default, bool):
            changed[field.name] = not field.default
        elif isinstance(field.default, int | float):
            changed[field.name] = field.default + 1
        elif isinstance(field.default, str):
            changed[field.name] = f"not {field.default}"
    found = block_settings(ViT(num_classes=2, **changed))
    assert type(found) is BlockSettings
    assert dataclasses.asdict(found) == changed
    assert hash(found) == hash(BlockSettings(**changed)) and found != BlockSettings()
