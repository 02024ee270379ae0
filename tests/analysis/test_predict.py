"""Predictions in words, and the heat map over the photo itself."""

import dataclasses

import jax
import numpy as np
import pytest
from PIL import Image

from tests.interpret.untrained import IMAGES, make_resnet_run
from vit_jax.analysis import predict as analysis_predict
from vit_jax.analysis.predict import describe
from vit_jax.errors import UserError
from vit_jax.figures import style
from vit_jax.interpret import attention, gradcam, inputs
from vit_jax.predict import main
from vit_jax.runs.load import load_run


@pytest.mark.parametrize(
    "probability, sentence",
    [
        (0.901, "very sure: dog (90.1%)"),
        (0.9, "fairly sure: dog (90.0%)"),
        (0.701, "fairly sure: dog (70.1%)"),
        (0.7, "unsure: perhaps dog (70.0%)"),
    ],
)
def test_the_sentence_has_two_borders(probability, sentence):
    rest = 1 - probability
    found = describe(
        np.array([0.5 * rest, probability, 0.2 * rest, 0.3 * rest]),
        ("cat", "dog", "ship", "frog"),
    )
    assert found["sentence"] == sentence
    assert [one["class"] for one in found["top"]] == ["dog", "cat", "frog"]


def test_attention_stands_beside_the_photo(tiny_run, pictures, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, path: drawn.append(figure))
    file = pictures / "b.jpg"
    arguments = [f"--workdir={tiny_run[0]}", f"--figures={tmp_path}", str(file)]
    assert main(arguments) == 0
    photo, alone, *_ = drawn[0].axes
    pixels = np.asarray(Image.open(file))[:, 5:25]
    assert pixels.shape == (20, 20, 3)
    np.testing.assert_array_equal(photo.images[0].get_array(), pixels)
    run = load_run(tiny_run[0])
    ((_, image),) = inputs.read_images([file], run.image_shape)
    expected = attention.read_attention(run, image[None]).maps()[0, -1].mean(axis=0)
    (heat,) = alone.images
    np.testing.assert_allclose(heat.get_array(), expected, rtol=1e-5)
    assert heat.get_extent() == [-0.5, 19.5, 19.5, -0.5]
    assert alone.get_title() == "attention, last block"


def test_logits_that_are_not_finite_are_no_prediction():
    run = make_resnet_run()
    spoilt = jax.tree.map(lambda x: np.full_like(x, np.nan), run.variables)
    run = dataclasses.replace(run, variables=spoilt, step=7)
    with pytest.raises(UserError, match=r"step 7 in .* are not finite; give another"):
        analysis_predict.finite_probabilities(run, IMAGES)


@pytest.mark.slow
def test_a_resnets_prediction_shows_grad_cam(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, path: drawn.append(figure))
    run, file = make_resnet_run(), tmp_path / "photo.png"
    Image.fromarray(IMAGES[0]).resize((30, 20)).save(file)
    (found,) = analysis_predict.predict_files(run, [(file, IMAGES[0])], tmp_path)
    predicted = run.class_names.index(found["top"][0]["class"])
    photo, alone, *_ = drawn[0].axes
    expected = gradcam.grad_cam(run, IMAGES[:1], np.array([predicted]))[0]
    np.testing.assert_allclose(alone.images[0].get_array(), expected, rtol=1e-5)
    assert alone.get_title() == "Grad-CAM"
    # The middle of the photo, which is all that a square model sees.
    assert photo.images[0].get_array().shape == (20, 20, 3)
