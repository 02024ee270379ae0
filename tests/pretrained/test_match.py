"""Tensors and parameters that do not fit each other, and the report on both."""

import numpy as np
import pytest

from tests.pretrained.loading import OURS, SIZES, TIMM, load, refusal
from vit_jax.models import ViT
from vit_jax.pretrained import Report


@pytest.mark.slow
def test_what_does_not_fit_is_listed_and_must_be_allowed():
    tensors = {k: v for k, v in TIMM.items() if k != "blocks.1.mlp.fc2.bias"}
    tensors["norm_pre.weight"] = np.ones(16, np.float32)
    tensors["blocks.0.norm1.bias"] = np.ones(7, np.float32)
    message = refusal(tensors)
    assert "lacks block1/mlp/out/bias" in message
    assert "without a place in the model, norm_pre.weight" in message
    assert "blocks.0.norm1.bias (7,) for (16,)" in message
    allow = (r"block1/mlp/out/.*", r"norm_pre.*", r"block0/norm1/bias")
    assert "norm_pre" not in refusal(tensors, allow=allow[1:])
    params, report = load(tensors, allow=allow)
    assert set(report.new) == {"block1/mlp/out/bias", "block0/norm1/bias"}
    assert set(report.dropped) == {"norm_pre.weight"}
    np.testing.assert_array_equal(params["block0/norm1/bias"], 0)


def test_other_sizes_are_refused_with_the_settings_to_set():
    assert "depth=2" in refusal(TIMM, model=ViT(5, **SIZES | {"depth": 1}))
    model = ViT(5, **SIZES | {"width": 32})
    assert "width=16" in refusal(TIMM, model=model)
    model = ViT(5, **SIZES, pooling="mean")
    assert "cls_token" in refusal(TIMM, model=model)
    params, _ = load(TIMM, model=model, allow=("class_token",))
    np.testing.assert_array_equal(params["positions"], OURS["positions"][:, 1:])


def test_rows_of_one_reason_are_joined():
    report = Report(
        path="vit.npz", format="npz", sha256="0f", layout="google", settings={},
        differences={"norm_eps": (1e-12, 1e-6)}, assumed={"num_heads": 3},
        pretraining_image=(224, 160),
        mapped={"head/bias": "head/bias"}, resized={"positions": "14 x 14 to 8 x 8"},
        dropped={"a": "not needed", "b": "other", "c": "not needed"},
        new={"head/kernel": "a fresh head"},
    )  # fmt: skip
    assert str(report).splitlines() == [
        "weights       vit.npz",
        "SHA-256       0f",
        "format        npz, names of google",
        "mapped        1 parameters",
        "resized       positions: 14 x 14 to 8 x 8",
        "dropped       a, c: not needed",
        "dropped       b: other",
        "new           head/kernel: a fresh head",
        "pretrained on 224 x 160 pixels",
        "assumed       num_heads=3, which the file does not tell",
        "differs       config.model.norm_eps is 1e-06, the weights' is 1e-12: "
        "--config.model.norm_eps=1e-12 takes theirs",
    ]
