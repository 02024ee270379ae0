"""Names of every layout become the same parameters."""

import numpy as np
import pytest

from tests.pretrained.loading import OURS, SIZES, TIMM, load, refusal
from tests.pretrained.weight_files import google_tensors, safetensors_bytes
from vit_jax.pretrained import Weights, implied_settings, read_weights


@pytest.mark.parametrize(
    "layout",
    ["timm", "dino", "google", "big_vision", "scanned", "opt", "own"],
)
def test_every_layout_gives_the_same_parameters(layout, tmp_path):
    path = tmp_path / "file"
    if layout in ("timm", "dino"):
        prefix = "module.backbone." if layout == "dino" else ""
        tensors = {prefix + name: array for name, array in TIMM.items()}
        path.write_bytes(safetensors_bytes(tensors))
    elif layout != "own":
        kinds = {"big_vision": layout != "google", "scanned": layout == "scanned"}
        tensors = google_tensors(OURS, **(kinds if layout != "opt" else {}))
        if layout == "opt":
            tensors = {f"opt/target/{name}": x for name, x in tensors.items()}
            tensors["opt/state/step"] = np.zeros((), np.int32)
        with open(path, "wb") as file:
            np.savez(file, **tensors)
    source = path
    if layout == "own":
        source = Weights("run", "vit_jax", "0" * 64, OURS, {"grid": (3, 3)})
    params, report = load(read_weights(path) if layout != "own" else source)
    assert params.keys() == OURS.keys()
    for name, array in OURS.items():
        np.testing.assert_array_equal(params[name], array, err_msg=name)
    assert len(report.mapped) == len(OURS)
    assert not report.new and not report.resized

    settings = implied_settings(source)
    if layout not in ("timm", "dino"):
        assert settings["num_heads"] == 2
    if layout != "own":
        assert {k: settings[k] for k in SIZES if k != "num_heads"}.items() <= (
            SIZES.items()
        )
        google = layout not in ("timm", "dino")
        assert settings["activation"] == ("gelu_tanh" if google else "gelu")
        assert ("activation" in report.differences) == google
        assert report.pretraining_image == (24, 24)


@pytest.mark.parametrize(
    ("prefix", "rule"),
    [("", "cubic_antialias"), ("backbone.", "dino"), ("module.backbone.", "dino")],
)
def test_positions_of_dinos_own_checkpoints_are_resized_as_dino_does(prefix, rule):
    tensors = {prefix + name: array for name, array in TIMM.items()}
    _, report = load(tensors, shape=(32, 32, 3), resize="origin")
    assert report.resized["positions"] == f"3 x 3 to 4 x 4 patches ({rule})"


def test_what_pretraining_alone_needs_is_dropped_with_a_word():
    extra = {
        "pre_logits.fc.weight": np.ones((16, 16), np.float32),
        "head.last_layer.weight_g": np.ones(3, np.float32),
        "mask_token": np.ones((1, 1, 16), np.float32),
    }
    assert "pre_logits" in refusal(TIMM | extra)
    _, report = load(TIMM | extra, head="zero")
    assert extra.keys() <= report.dropped.keys()
    assert "used in pretraining only" in str(report)
