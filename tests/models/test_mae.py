"""The masked autoencoder: what it sees, what it hides, and its encoder's names."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from tests.models import shapes
from tests.models.shapes import random_images, random_variables, shapes_of
from vit_jax.errors import UserError
from vit_jax.models import mae
from vit_jax.runs.run import model_features

IMAGE_SHAPE = (8, 12, 3)
SMALL = {
    "name": "vit", "patch_size": 2, "width": 8, "depth": 1, "num_heads": 2,
    "mlp_ratio": 1.0,
}  # fmt: skip
MAE = {"mask_ratio": 0.75, "decoder_width": 8, "decoder_depth": 1, "decoder_heads": 2}
STEMS = {
    "patch": {},
    "conv": {"stem": "conv", "stem_channels": (4,), "stem_downsampling": "max_pool"},
    "shifted": {"stem": "shifted_patch", "patch_norm": True},
}


def make(config_mae=None, **changes):
    settings = SMALL | changes
    return shapes.make(
        **settings, image_shape=IMAGE_SHAPE, num_classes=5, mae=config_mae
    )


def draw(model):
    """(variables, images)."""
    return random_variables(model, IMAGE_SHAPE), random_images(2, IMAGE_SHAPE)


def names(model):
    params = shapes_of(model, IMAGE_SHAPE)["params"]
    leaves = traverse_util.flatten_dict(params, sep="/")
    return {name: leaf.shape for name, leaf in leaves.items()}


@pytest.mark.parametrize(
    "changes",
    [{}, STEMS["conv"] | {"pooling": "mean"},
     {"num_registers": 2, "position_embedding": "sinusoidal_2d", "layer_scale": 0.1}],
    ids=["class token", "conv", "registers"],
)  # fmt: skip
def test_the_encoder_has_the_names_and_shapes_of_the_vit(changes):
    vit, found = names(make(**changes)), names(make(MAE, **changes))
    encoder = {k: v for k, v in found.items() if not k.startswith("decoder")}
    assert encoder == {k: v for k, v in vit.items() if not k.startswith("head")}
    assert any(name.startswith("decoder/") for name in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{}, {"pooling": "mean", "num_registers": 2}], ids=["cls", "mean"]
)
def test_the_features_are_those_of_the_vit(changes):
    model, vit = make(MAE, **changes), make(**changes)
    variables, images = draw(model)
    head = random_variables(vit, IMAGE_SHAPE)["params"]["head"]
    params = {"params": variables["params"] | {"head": head}}
    params["params"].pop("decoder")
    found = model_features(model, variables, images)
    assert found.shape == (2, 8)
    np.testing.assert_allclose(found, model_features(vit, params, images), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stem", "pooling"),
    [("conv", "mean"), ("conv", "cls"), ("patch", "mean"), ("shifted", "cls")],
)
def test_hidden_pixels_do_not_reach_the_prediction(stem, pooling):
    model = make(MAE, pooling=pooling, num_registers=1, **STEMS[stem])
    variables, images = draw(model)
    keys = jax.random.split(jax.random.key(0), len(images))
    visible = model.draw_visible(keys, IMAGE_SHAPE)
    hidden = np.asarray(mae.hidden_patches(visible, 24))
    others, patches = (
        np.asarray(mae.to_patches(x, 2))
        for x in (random_images(2, IMAGE_SHAPE, seed=2), images)
    )

    @jax.jit
    def predict(patches):
        images = mae.from_patches(patches, IMAGE_SHAPE, 2)
        return model.apply(variables, images, visible)

    predicted = predict(patches)
    assert predicted.shape == (2, 24, 12)
    replaced = np.where(hidden[..., None], others, patches)
    np.testing.assert_array_equal(predict(replaced), predicted)
    for place in zip(*np.nonzero(~hidden), strict=True):
        changed = patches.copy()
        changed[place] += 1
        assert (np.asarray(predict(changed)) != predicted)[place[0]].any()


@pytest.mark.slow
def test_each_patch_is_predicted_at_its_place():
    """The order in which the visible patches are named changes nothing."""
    model = make(MAE)
    variables, images = draw(model)
    predict = jax.jit(functools.partial(model.apply, variables))
    visible = jnp.array([[0, 5, 11, 23], [1, 2, 3, 4]])
    np.testing.assert_allclose(
        predict(images, visible), predict(images, visible[:, ::-1]), atol=1e-5
    )
    # Without decoder blocks, the prediction of a patch depends on nothing but its own
    # token, so all hidden patches of all images differ by their positions only.
    model = make(MAE | {"decoder_depth": 0})
    predicted = np.asarray(model.apply(draw(model)[0], images, visible, train=False))
    hidden = np.asarray(mae.hidden_patches(visible, 24))
    both = hidden.all(axis=0)
    np.testing.assert_allclose(predicted[0, both], predicted[1, both], atol=1e-5)
    assert (np.abs(predicted[0] - predicted[1]).max(-1) > 1e-3)[~both].all()


def test_patches_are_cut_row_by_row():
    images = random_images(2, IMAGE_SHAPE)
    patches = mae.to_patches(images, 4)
    assert patches.shape == (2, 6, 48)
    for number in range(6):
        row, column = divmod(number, 3)
        cut = images[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
        np.testing.assert_array_equal(patches[:, number], cut.reshape(2, -1))
    np.testing.assert_array_equal(mae.from_patches(patches, IMAGE_SHAPE, 4), images)
    mean, deviation = mae.patch_statistics(images, 4)
    np.testing.assert_allclose(mean[..., 0], patches.mean(-1), atol=1e-6)
    np.testing.assert_allclose(deviation[..., 0], patches.std(-1), rtol=1e-5)
    hidden = np.zeros((2, 6), bool)
    hidden[0, 4] = True
    shown = np.asarray(mae.hide_patches(images, jnp.array(hidden), 4))
    assert (shown[0, 4:, 4:8] == 0).all()
    assert (shown != images).sum() == 48


def test_the_share_of_hidden_patches_is_exact_and_every_patch_has_its_turn():
    model = make(MAE)
    keys = jax.random.split(jax.random.key(0), 4000)
    hidden = np.asarray(mae.hidden_patches(model.draw_visible(keys, IMAGE_SHAPE), 24))
    assert (hidden.sum(axis=1) == 18).all()
    # The standard deviation of each mean is below 0.007.
    np.testing.assert_allclose(hidden.mean(axis=0), 0.75, atol=0.03)
    together = (hidden[:, :1] & hidden[:, 1:]).mean(axis=0)
    np.testing.assert_allclose(together, 18 * 17 / (24 * 23), atol=0.035)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mask_ratio": 0.01}, "hides 0 of 24 patches"),
        ({"mask_ratio": 0.99}, "hides 24 of 24 patches"),
        ({"decoder_width": 10}, "divisible by 4"),
        ({"decoder_heads": 3}, "config.mae.decoder_heads (3)"),
    ],
)
def test_settings_that_do_not_fit_are_a_sentence(changes, words):
    with pytest.raises(UserError) as refusal:
        make(MAE | changes)
    assert words in str(refusal.value)


def test_only_a_vit_hides_patches():
    with pytest.raises(UserError, match="take a ViT"):
        shapes.make("resnet18", mae=MAE)
