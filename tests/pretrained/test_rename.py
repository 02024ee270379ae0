"""What the names and forms of tensors tell of a model."""

import numpy as np

from tests.pretrained.loading import OURS, SIZES, TIMM, load, refusal
from vit_jax.models import ViT


def test_a_norm_behind_the_pooling_is_taken_for_the_final_one():
    tensors = {
        name.replace("norm.", "fc_norm.") if name.startswith("norm.") else name: array
        for name, array in TIMM.items()
    }
    params, report = load(tensors)
    np.testing.assert_array_equal(params["final_norm/scale"], OURS["final_norm/scale"])
    assert report.differences["pooling"] == ("mean", "cls")
    mean = ViT(5, **SIZES, pooling="mean")
    assert "reads the normalised mean" in refusal(tensors, model=mean)
    _, report = load(tensors, model=mean, head="fresh", allow=("cls_token",))
    assert "normalises the mean" in report.resized["final_norm/scale"]
    _, report = load(TIMM | {"fc_norm.bias": np.ones(16, np.float32)})
    assert "fc_norm.bias" in report.dropped


def test_a_file_without_positions_does_not_tell_whether_there_are_any():
    tensors = {name: x for name, x in TIMM.items() if name != "pos_embed"}
    model = ViT(5, **SIZES, position_embedding="sinusoidal_2d")
    report = load(tensors, model=model)[1]
    assert "position_embedding" not in report.settings | report.differences
    assert "position_embedding=sinusoidal_2d" in str(report)
