"""Weights of every layout become the parameters of a ViT, or are refused."""

import jax
import numpy as np
import pytest
from flax import traverse_util

from tests.pretrained.weight_files import (
    google_tensors,
    numpy_vit,
    safetensors_bytes,
    timm_tensors,
)
from vit_jax.errors import UserError
from vit_jax.models import ResNet, ViT
from vit_jax.pretrained import (
    Weights,
    implied_settings,
    load_pretrained,
    read_weights,
    save_timm,
    weights_from_params,
)

SIZES = {"width": 16, "depth": 2, "num_heads": 2, "mlp_ratio": 2.0, "patch_size": 8}
SHAPE = (24, 24, 3)
OURS = numpy_vit()
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


TIMM = timm_tensors(OURS)


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
        params = traverse_util.unflatten_dict(OURS, sep="/")
        source = weights_from_params(params, "run", "0" * 64, (3, 3))
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


def test_heads():
    _, report = load(TIMM, head="zero", model=ViT(3, **SIZES))
    assert set(report.dropped) == {"head.weight", "head.bias"}
    params, _ = load(TIMM, head="zero")
    assert not np.any(params["head/kernel"]) and not np.any(params["head/bias"])
    params, report = load(TIMM, head="fresh")
    assert np.any(params["head/kernel"]) and "a fresh head" in str(report)
    assert not np.array_equal(params["head/kernel"], OURS["head/kernel"])
    again, _ = load(TIMM, head="fresh")
    np.testing.assert_array_equal(params["head/kernel"], again["head/kernel"])
    assert "has 5" in refusal(TIMM, model=ViT(3, **SIZES))
    headless = {k: v for k, v in TIMM.items() if not k.startswith("head")}
    assert "has 0" in refusal(headless)
    load(headless, head="zero")


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


def test_a_norm_behind_the_pooling_is_taken_for_the_final_one():
    tensors = {
        name.replace("norm.", "fc_norm.") if name.startswith("norm.") else name: array
        for name, array in TIMM.items()
    }
    params, report = load(tensors)
    np.testing.assert_array_equal(params["final_norm/scale"], OURS["final_norm/scale"])
    assert report.differences["pooling"] == ("mean", "cls")
    _, report = load(TIMM | {"fc_norm.bias": np.ones(16, np.float32)})
    assert "fc_norm.bias" in report.dropped


@pytest.mark.parametrize("num_before", [0, 1, 3])
def test_positions_are_found_with_and_without_those_of_other_tokens(num_before):
    """9, 10 and 12 positions are 3 x 3 patches each time."""
    rng = np.random.default_rng(1)
    positions = rng.standard_normal((1, num_before + 9, 16)).astype(np.float32)
    registers = rng.standard_normal((1, 2, 16)).astype(np.float32)
    tensors = TIMM | {"pos_embed": positions, "reg_token": registers}
    params, _ = load(tensors, model=ViT(5, **SIZES, num_registers=2))
    patches = params["positions"][:, 1:]
    np.testing.assert_array_equal(patches, positions[:, num_before:])
    of_class = positions[:, :1] if num_before else np.zeros((1, 1, 16))
    np.testing.assert_array_equal(params["positions"][:, :1], of_class)
    added = positions[:, 1:3] if num_before == 3 else 0
    np.testing.assert_array_equal(params["registers"], registers + added)

    _, report = load(tensors)
    assert report.dropped["reg_token"] == "the model has no registers"
    assert report.differences["num_registers"] == (2, 0)


def test_a_distillation_token_becomes_a_register():
    token = np.ones((1, 1, 16), np.float32)
    positions = np.arange(11 * 16, dtype=np.float32).reshape(1, 11, 16)
    tensors = TIMM | {"dist_token": token, "pos_embed": positions}
    tensors["head_dist.bias"] = np.ones(5, np.float32)
    params, report = load(tensors, model=ViT(5, **SIZES, num_registers=1))
    np.testing.assert_array_equal(params["registers"], token + positions[:, 1:2])
    assert report.mapped["registers"] == "dist_token"
    assert "head_dist.bias" in report.dropped
    _, report = load(tensors)
    assert "dist_token" in report.dropped


def test_a_distillation_token_and_its_head_are_taken_where_the_model_has_them():
    rng = np.random.default_rng(2)
    tensors = TIMM | {
        "dist_token": rng.standard_normal((1, 1, 16)).astype(np.float32),
        "pos_embed": rng.standard_normal((1, 11, 16)).astype(np.float32),
        "head_dist.weight": rng.standard_normal((5, 16)).astype(np.float32),
        "head_dist.bias": rng.standard_normal(5).astype(np.float32),
    }
    settings = implied_settings(make(tensors))
    assert settings["distillation_token"] and settings["num_registers"] == 0
    model = ViT(5, **SIZES, distillation_token=True)
    params, report = load(tensors, model=model)
    assert not report.new and not report.dropped
    np.testing.assert_array_equal(params["positions"], tensors["pos_embed"])
    np.testing.assert_array_equal(params["distillation_token"], tensors["dist_token"])
    kernel = tensors["head_dist.weight"].T
    np.testing.assert_array_equal(params["distillation_head/kernel"], kernel)
    # Our own parameters are read back, with registers behind the patches.
    tree = traverse_util.unflatten_dict(params, sep="/")
    tree["registers"] = np.ones((1, 3, 16), np.float32)
    own = weights_from_params(tree, "run", "0" * 64, (3, 3))
    again, _ = load(own, model=model.clone(num_registers=3))
    for name, array in traverse_util.flatten_dict(tree, sep="/").items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)

    params, report = load(tensors, model=model, head="zero")
    assert not any(np.any(params[f"{x}/bias"]) for x in ("head", "distillation_head"))
    assert {"head_dist.weight", "head_dist.bias"} <= report.dropped.keys()


@pytest.mark.slow
def test_a_vit_that_had_no_distillation_token_gets_a_new_one():
    model = ViT(5, **SIZES, distillation_token=True)
    assert "lacks distillation_token" in refusal(TIMM, model=model, head="zero")
    params, report = load(TIMM, model=model, head="zero", allow=("distillation_token",))
    assert "distillation_token" in report.new
    assert np.any(params["distillation_token"])
    np.testing.assert_array_equal(params["positions"][:, 1], 0)
    np.testing.assert_array_equal(params["positions"][:, 2:], OURS["positions"][:, 1:])


def test_positions_are_resized_to_any_grid():
    params, report = load(TIMM, shape=(16, 40, 3))
    assert params["positions"].shape == (1, 1 + 2 * 5, 16)
    np.testing.assert_array_equal(params["positions"][:, 0], OURS["positions"][:, 0])
    assert "3 x 3 to 2 x 5 patches (cubic_antialias)" in str(report)
    other, report = load(TIMM, shape=(16, 40, 3), resize="zoom")
    assert not np.allclose(other["positions"], params["positions"])
    google = make(google_tensors(OURS), format="npz")
    origin, _ = load(google, shape=(16, 40, 3), resize="origin")
    np.testing.assert_array_equal(origin["positions"], other["positions"])


def test_positions_of_a_grid_that_is_not_square_need_its_size():
    tensors = TIMM | {"pos_embed": OURS["positions"][:, :9]}
    assert "8 positions" in refusal(TIMM | {"pos_embed": OURS["positions"][:, :8]})
    with_grid, _ = load(tensors, shape=(16, 32, 3), grid=(2, 4))
    np.testing.assert_array_equal(with_grid["positions"], OURS["positions"][:, :9])


def test_patches_are_resized_only_where_asked():
    model = ViT(5, **SIZES | {"patch_size": 4})
    assert "patches of 8 pixels" in refusal(TIMM, model=model)
    params, report = load(TIMM, model=model, resize_patches=True)
    assert params["stem/projection/kernel"].shape == (4, 4, 3, 16)
    assert "8 x 8 to 4 x 4 pixels" in str(report)


def test_grey_images_sum_the_channels_and_others_are_refused():
    params, report = load(TIMM, shape=(24, 24, 1))
    expected = OURS["stem/projection/kernel"].sum(axis=2, keepdims=True)
    np.testing.assert_allclose(params["stem/projection/kernel"], expected, atol=1e-6)
    assert "3 channels to 1" in str(report)
    assert "these have 4" in refusal(TIMM, shape=(24, 24, 4))


def test_mistakes_are_refused():
    assert "no head" in refusal(TIMM, head="frehs")
    assert 'did you mean "zoom"' in refusal(TIMM, resize="zom")
    assert "ResNet" in refusal(TIMM, model=ResNet(5, stage_sizes=(1,)))
    assert "no ViT of known names" in refusal({"conv1.weight": np.ones(3, "f4")})
    bad = TIMM | {"blocks.0.norm1.bias": np.full(16, np.nan, np.float32)}
    assert "not finite in blocks.0.norm1.bias" in refusal(bad)
    flat = TIMM | {"patch_embed.proj.weight": np.ones((16, 192), np.float32)}
    assert "patch projection of shape" in refusal(flat)
    flat = TIMM | {"cls_token": np.ones(16, np.float32)}
    assert "tokens of shapes" in refusal(flat)
    empty = google_tensors(OURS, big_vision=True, scanned=True)
    name = "params/Transformer/encoderblock/LayerNorm_0/bias"
    empty[name] = np.empty((10**15, 0), np.float32)
    assert "LayerNorm_0/bias" in refusal(empty)
    odd = {k.replace("norm1", "norm9"): v for k, v in TIMM.items()}
    assert "lacks block0/norm1/bias" in refusal(odd)


def test_models_that_timm_lacks_are_not_written(tmp_path):
    for changes in (
        {"stem": "conv"}, {"pooling": "sequence"}, {"qk_norm": True},
        {"distillation_token": True, "num_registers": 1},
    ):  # fmt: skip
        with pytest.raises(UserError, match="timm has no ViT"):
            save_timm(tmp_path / "x", ViT(5, **SIZES, **changes), {}, SHAPE)


def test_what_is_written_is_read_again_with_what_names_do_not_tell(tmp_path):
    params = traverse_util.unflatten_dict(numpy_vit(grid=3), sep="/")
    model = ViT(5, **SIZES, norm_eps=1e-5)
    save_timm(tmp_path / "x", model, params, SHAPE)
    again, report = load(read_weights(tmp_path / "x"), model=model)
    assert not report.differences and report.settings["num_heads"] == 2
    for name, array in OURS.items():
        np.testing.assert_array_equal(again[name], array)
