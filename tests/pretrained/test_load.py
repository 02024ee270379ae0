"""The head, the patches and the channels of a model, and mistakes in the call."""

import jax
import numpy as np
import pytest
from flax import traverse_util

from tests.pretrained.loading import KEY, OURS, SHAPE, SIZES, TIMM, load, make, refusal
from tests.pretrained.weight_files import google_tensors
from vit_jax.models import ResNet, ViT, init_variables


@pytest.mark.slow
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


def test_another_meaning_of_the_same_tensors_is_refused():
    heads = make(TIMM, num_heads=4)
    assert "set config.model.num_heads=4" in refusal(heads)
    assert not load(make(TIMM, num_heads=2))[1].differences
    post = ViT(5, **SIZES, norm_position="post")
    assert "set config.model.norm_position=pre" in refusal(TIMM, model=post)
    own = make(TIMM, norm_eps=1e-5)
    assert load(own)[1].differences == {"norm_eps": (1e-5, 1e-6)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"stem_downsampling": "max_pool"}, {"position_embedding": "none"},
     {"patch_size": 4}],
)  # fmt: skip
def test_a_run_of_another_stem_or_fixed_positions_is_refused(changes):
    """No tensor has another shape."""
    settings = SIZES | {
        "stem": "conv", "stem_channels": (4, 8), "stem_downsampling": "stride",
        "position_embedding": "sinusoidal_2d",
    }  # fmt: skip
    params = init_variables(ViT(5, **settings), KEY, SHAPE)["params"]
    tensors = traverse_util.flatten_dict(jax.device_get(params), sep="/")
    own = make(tensors, "vit_jax", **settings)
    assert not load(own, model=ViT(5, **settings))[1].differences
    ((name, theirs),) = ((key, settings[key]) for key in changes)
    message = refusal(own, model=ViT(5, **settings | changes))
    assert f"set config.model.{name}={theirs}" in message
    # What halves the image in one stem is no matter of a stem of another kind.
    patches = ViT(5, **SIZES, position_embedding="sinusoidal_2d")
    report = load(own, model=patches, allow=("stem/.*",))[1]
    assert "stem/projection/kernel" in report.new


def test_the_stem_of_another_kind_is_no_matter_of_channels():
    stem = {"stem": "conv", "stem_channels": (4, 4, 6), "stem_norm": "batch"}
    message = refusal(TIMM, model=ViT(5, **SIZES, **stem))
    assert "channels" not in message and "stem/" in message
    # Its patches need not have the size of the file's.
    model = ViT(5, **SIZES | stem | {"patch_size": 4, "stem_channels": (4, 6)})
    parts = ("stem/.*", "patch_embed.*", "positions", "pos_embed")
    assert "block0/norm1/scale" in load(TIMM, model=model, allow=parts)[0]


def test_mistakes_are_refused():
    assert "no head" in refusal(TIMM, head="frehs")
    assert 'did you mean "zoom"' in refusal(TIMM, resize="zom")
    assert "ResNet" in refusal(TIMM, model=ResNet(5, stage_sizes=(1,)))
    assert "no ViT of known names" in refusal({"conv1.weight": np.ones(3, "f4")})
    bad = TIMM | {"blocks.0.norm1.bias": np.full(16, np.nan, np.float32)}
    assert "not finite in blocks.0.norm1.bias" in refusal(bad)
    flat = TIMM | {"patch_embed.proj.weight": np.ones((16, 192), np.float32)}
    assert "patch projection of shape" in refusal(flat)
    flat = TIMM | {"patch_embed.proj.weight": np.ones(16, np.float32)}
    assert "patch projection of shape" in refusal(flat)
    for activation in ("quick_gelu", ["gelu"]):
        other = make(TIMM, activation=activation)
        assert "quick_gelu" in refusal(other) or "['gelu']" in refusal(other)
    flat = TIMM | {"cls_token": np.ones(16, np.float32)}
    assert "tokens of shapes" in refusal(flat)
    empty = google_tensors(OURS, big_vision=True, scanned=True)
    name = "params/Transformer/encoderblock/LayerNorm_0/bias"
    empty[name] = np.empty((10**15, 0), np.float32)
    assert "LayerNorm_0/bias" in refusal(empty)
    odd = {k.replace("norm1", "norm9"): v for k, v in TIMM.items()}
    assert "lacks block0/norm1/bias" in refusal(odd)


def test_a_number_of_heads_that_the_file_does_not_tell_is_named():
    _, report = load(TIMM, model=ViT(5, **SIZES))
    assert report.assumed == {"num_heads": SIZES["num_heads"]}
    line = f"num_heads={SIZES['num_heads']}, which the file does not tell"
    assert line in str(report)
    _, report = load(make(TIMM, num_heads=2))
    assert report.assumed == {} and "does not tell" not in str(report)
