"""Resized positions and kernels agree with other libraries and with the paper.

Registers and positions are fitted to the grid of a model.
"""

import jax
import numpy as np
import pytest

from tests.pretrained.loading import OURS, SIZES, TIMM, load, make, refusal
from tests.pretrained.weight_files import google_tensors
from tests.rows import slow
from vit_jax.models import ViT
from vit_jax.pretrained import Weights, implied_settings
from vit_jax.pretrained.fit import RULES, resize_grid, resize_kernel

GRID = np.random.default_rng(0).standard_normal((14, 14, 8)).astype(np.float32)


def test_zoom_keeps_the_outermost_places():
    """The other rules are compared with timm and PyTorch in test_timm."""
    places = np.eye(4, dtype=np.float32)[:, None]
    resized = resize_grid(places, (2, 1), "zoom")
    np.testing.assert_allclose(resized, places[[0, 3]], atol=1e-6)


@pytest.mark.parametrize(
    "rule", [rule if rule == "zoom" else slow(rule) for rule in RULES]
)
def test_every_rule_keeps_a_constant_and_the_size(rule):
    for new in (1, 20):
        resized = resize_grid(np.ones((14, 14, 2), np.float32), (new, new + 1), rule)
        assert resized.shape == (new, new + 1, 2) and resized.dtype == np.float32
        np.testing.assert_allclose(resized, 1, atol=1e-5)
    assert resize_grid(GRID, (14, 14), rule) is GRID


def test_a_larger_kernel_gives_the_same_tokens_on_resized_patches():
    rng = np.random.default_rng(0)
    patch = rng.standard_normal((4, 4, 3))
    kernel = rng.standard_normal((4, 4, 3, 5))
    larger = jax.image.resize(patch, (6, 6, 3), "cubic")
    np.testing.assert_allclose(
        np.einsum("rci,rcio->o", larger, resize_kernel(kernel, 6)),
        np.einsum("rci,rcio->o", patch, kernel),
        atol=1e-5,
    )


@pytest.mark.parametrize("num_before", [0, 1, 3])
def test_positions_are_found_with_and_without_those_of_other_tokens(num_before):
    """9, 10 and 12 positions all mean 3 x 3 patches."""
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
    own = {name: np.asarray(array) for name, array in params.items()}
    own["registers"] = np.ones((1, 3, 16), np.float32)
    source = Weights("run", "vit_jax", "0" * 64, own, {"grid": (3, 3)})
    again, _ = load(source, model=model.clone(num_registers=3))
    for name, array in own.items():
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


@pytest.mark.slow
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
