"""Tensors in memory, loaded into a tiny ViT or refused."""

import jax
import pytest
from flax import traverse_util

from tests.pretrained.weight_files import numpy_vit, timm_tensors
from vit_jax.errors import UserError
from vit_jax.models import ViT
from vit_jax.pretrained import Weights, load_pretrained

SIZES = {"width": 16, "depth": 2, "num_heads": 2, "mlp_ratio": 2.0, "patch_size": 8}
SHAPE = (24, 24, 3)
OURS = numpy_vit()
TIMM = timm_tensors(OURS)
KEY = jax.random.key(0)


def make(tensors, format="safetensors", **metadata):
    return Weights("file", format, "0" * 64, dict(tensors), metadata)


def load(tensors, *, shape=SHAPE, model=None, head="keep", **options):
    """(parameters by name, report) of timm's tensors in a model like theirs."""
    weights = tensors if isinstance(tensors, Weights) else make(tensors)
    model = model or ViT(5, **SIZES)
    params, report = load_pretrained(weights, model, shape, KEY, head=head, **options)
    return traverse_util.flatten_dict(params, sep="/"), report


def refusal(tensors, **options):
    with pytest.raises(UserError) as caught:
        load(tensors, **options)
    message = str(caught.value)
    assert message.endswith(".") and ". " not in message
    return message
