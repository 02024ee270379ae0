"""What a user may give as images, and what is refused because it might mean another."""

import numpy as np
import pytest

from vit_jax.errors import UserError
from vit_jax.runs.load import load_run
from vit_jax.runs.model_input import as_images

RGB, GREY = (2, 3, 3), (2, 3, 1)


def random_images(shape, n=4):
    return np.random.default_rng(0).integers(256, size=(n, *shape), dtype=np.uint8)


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x,
        list,
        lambda x: x.tolist(),
        lambda x: x.astype(np.int64),
        lambda x: x.astype(np.float32),
        lambda x: x.astype(np.float32) / 255,
        lambda x: x.astype(np.float64) / 255,
        lambda x: x.astype(np.float16) / 255,
    ],
)
@pytest.mark.parametrize("shape", [RGB, GREY])
def test_the_same_images_in_other_forms(convert, shape):
    images = random_images(shape)
    found = as_images(convert(images), shape)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, images)


def test_axes_that_are_left_out():
    for shape in (RGB, GREY):
        (image,) = images = random_images(shape, 1)
        np.testing.assert_array_equal(as_images(image, shape), images)
    images = random_images(GREY)
    np.testing.assert_array_equal(as_images(images[..., 0], GREY), images)
    np.testing.assert_array_equal(as_images(images[0, ..., 0], GREY), images[:1])


@pytest.mark.parametrize("images", [[], np.empty((0, *RGB)), np.empty((0,), np.uint8)])
def test_no_image_at_all(images):
    assert as_images(images, RGB).shape == (0, *RGB)


@pytest.mark.parametrize(
    "images, words",
    [
        (np.full((1, *RGB), 1.5), "float64 from 1.5 to 1.5 was given"),
        (np.full((1, *RGB), -0.1), "normalised already go to run.model.apply"),
        (np.full((1, *RGB), np.nan), "uint8 from 0 to 255"),
        (np.full((1, *RGB), 16.0), "float64 from 16 to 16 was given, whose white"),
        (np.full((1, *RGB), 16), "int64 from 16 to 16 was given, whose white"),
        (np.full((1, *RGB), 300), "int64 from 300 to 300"),
        (np.full((1, *RGB), -1), "from -1 to -1"),
        (np.ones((1, *RGB), bool), "an array of numbers"),
        ([np.zeros(RGB), np.zeros(GREY)], "list with object"),
        ("photo.jpg", "str with"),
        (None, "NoneType with"),
        (np.zeros((1, 3, 2, 3)), r"shape \[1, 3, 2, 3\] were given.* \[n, 2, 3, 3\]"),
        (np.zeros((0, 5, 5, 3)), r"shape \[0, 5, 5, 3\] were given"),
    ],
)
def test_what_could_mean_something_else_is_refused(images, words):
    with pytest.raises(UserError, match=words):
        as_images(images, RGB)


def test_a_run_takes_them(tiny_run):
    run = load_run(tiny_run[0])
    images = random_images(run.image_shape)
    expected = run.predict(images)
    for same in (images / 255.0, images.tolist(), images[..., 0]):
        np.testing.assert_array_equal(run.predict(same), expected)
    assert run.predict([]).shape == (0, 10)
    with pytest.raises(UserError, match=r"\[1, 32, 32, 3\].*\[n, 8, 8, 1\]"):
        run.predict(np.zeros((1, 32, 32, 3), np.uint8))
