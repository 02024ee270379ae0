"""Registers and positions, fitted to the grid of a model."""

import numpy as np
import pytest

from tests.pretrained.loading import OURS, SIZES, TIMM, load, make, refusal
from tests.pretrained.weight_files import google_tensors
from vit_jax.models import ViT


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
