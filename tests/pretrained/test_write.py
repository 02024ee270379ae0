"""Parameters in timm's names, written and read again."""

import jax
import numpy as np
import pytest
from flax import traverse_util

from tests.pretrained.loading import OURS, SHAPE, SIZES, load
from vit_jax.errors import UserError
from vit_jax.models import MaskedAutoencoder, ResNet, ViT, init_variables
from vit_jax.pretrained import read_weights, save_timm


def test_models_that_timm_lacks_are_not_written(tmp_path):
    for changes in (
        {"stem": "conv"}, {"pooling": "sequence"}, {"qk_norm": True},
        {"distillation_token": True, "num_registers": 1},
    ):  # fmt: skip
        with pytest.raises(UserError, match="timm has no ViT"):
            save_timm(tmp_path / "x", ViT(5, **SIZES, **changes), {}, SHAPE)


def test_what_is_written_is_read_again_with_what_names_do_not_tell(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    params = traverse_util.unflatten_dict(OURS, sep="/")
    model = ViT(5, **SIZES, norm_eps=1e-5)
    save_timm("~/x", model, params, SHAPE)
    again, report = load(read_weights(tmp_path / "x"), model=model)
    assert not report.differences and report.settings["num_heads"] == 2
    for name, array in OURS.items():
        np.testing.assert_array_equal(again[name], array)


@pytest.mark.slow
@pytest.mark.parametrize("width, mlp_ratio", [(36, 2.125), (20, 1.125), (224, 4.2)])
def test_timm_makes_the_same_hidden_layer(tmp_path, width, mlp_ratio):
    """timm truncates the product of width and ratio."""
    model = ViT(2, width=width, depth=1, num_heads=1, mlp_ratio=mlp_ratio, patch_size=8)
    params = init_variables(model, jax.random.key(0), SHAPE)["params"]
    arguments = save_timm(tmp_path / "x", model, params, SHAPE)
    hidden = params["block0"]["mlp"]["hidden"]["bias"].size
    assert int(width * arguments["mlp_ratio"]) == hidden


def test_only_a_vit_is_written(tmp_path):
    decoder = {"decoder_width": 8, "decoder_depth": 1, "decoder_heads": 2}
    for model in (ResNet(5, (1,)), MaskedAutoencoder(5, **SIZES, **decoder)):
        with pytest.raises(UserError, match="only a ViT can be written"):
            save_timm(tmp_path / "x", model, {}, SHAPE)
