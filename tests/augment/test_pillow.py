"""Every pixel operation against the Pillow operation that torchvision calls.

All are identical bit for bit, geometric ones included, since `warp` follows Pillow's
fixed-point arithmetic: no pixel is excused.
"""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps
from sklearn.datasets import load_digits

from vit_jax.augment import color, geometry

SLOW = pytest.mark.slow


def made_images():
    """Gradients, one value only, two values, noise, and noise of few values."""
    rng = np.random.default_rng(0)
    y, x = np.indices((32, 32))
    ramp = np.stack([8 * y, 8 * x, 4 * (x + y)], -1)
    flat = np.full((32, 32, 3), (7, 255, 0))
    two = np.where((x < 5)[..., None], 100, flat)
    noise = rng.integers(256, size=(4, 32, 32, 3))
    few = rng.choice([30, 31, 90, 200], size=(4, 32, 32, 3))
    return np.concatenate([[ramp, flat, two], noise, few]).astype(np.uint8)


def gray_digits():
    digits = load_digits().images[:20] * 15.9
    return digits.astype(np.uint8)[..., None]


@pytest.fixture(
    scope="module",
    params=["made", *(pytest.param(n, marks=SLOW) for n in ("digits", "cifar10"))],
)
def images(request):
    """uint8 [n, h, w, c]."""
    if request.param == "made":
        return made_images()
    if request.param == "digits":
        return gray_digits()
    path = request.getfixturevalue("cifar10_dir") / "data_batch_1"
    rows = pickle.loads(path.read_bytes(), encoding="bytes")[b"data"][:60]
    return rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def to_pillow(image):
    return Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)


def from_pillow(image):
    array = np.asarray(image)
    return array if array.ndim == 3 else array[..., None]


def enhance(kind):
    # Pillow's blend takes a C float.
    return lambda image, factor: kind(image).enhance(float(factor))


def affine(image, matrix):
    black = 0 if image.mode == "L" else (0, 0, 0)
    return image.transform(
        image.size, Image.AFFINE, matrix, Image.NEAREST, fillcolor=black
    )


def linspace(start, stop, num):
    return np.linspace(start, stop, num, dtype=np.float32)


FACTORS = 1 + linspace(-0.99, 0.99, 45)
# name: ours (image, amount), Pillow's (image, value), {value: amount} or values.
VALUE_OPERATIONS = {
    "brightness": (
        lambda image, x: color.brightness(image, factor=x),
        enhance(ImageEnhance.Brightness),
        FACTORS,
    ),
    "color": (
        lambda image, x: color.color(image, factor=x),
        enhance(ImageEnhance.Color),
        FACTORS,
    ),
    "contrast": (
        lambda image, x: color.contrast(image, factor=x),
        enhance(ImageEnhance.Contrast),
        FACTORS,
    ),
    "sharpness": (
        lambda image, x: color.sharpness(image, factor=x),
        enhance(ImageEnhance.Sharpness),
        FACTORS,
    ),
    "posterize": (
        lambda image, x: color.posterize(image, bits=x),
        ImageOps.posterize,
        range(1, 9),
    ),
    "solarize": (
        lambda image, x: color.solarize(image, threshold=x),
        ImageOps.solarize,
        [*linspace(255, 0, 31), 170, 256],
    ),
    "autocontrast": (
        lambda image, x: color.autocontrast(image),
        lambda image, x: ImageOps.autocontrast(image),
        [0],
    ),
    "equalize": (
        lambda image, x: color.equalize(image),
        lambda image, x: ImageOps.equalize(image),
        [0],
    ),
    "invert": (
        lambda image, x: color.invert(image),
        lambda image, x: ImageOps.invert(image),
        [0],
    ),
}
# name: our matrix (value, size), Pillow's (image, value), values.
SHEARS = linspace(-0.99, 0.99, 61)
PIXELS = range(-33, 34)
WARPS = {
    "shear_x": (
        lambda x, size: geometry.shear_x_matrix(x),
        lambda image, x: affine(image, (1, x, 0, 0, 1, 0)),
        SHEARS,
    ),
    "shear_y": (
        lambda x, size: geometry.shear_y_matrix(x),
        lambda image, x: affine(image, (1, 0, 0, x, 1, 0)),
        SHEARS,
    ),
    "translate_x": (
        lambda x, size: geometry.translate_matrix(x, 0),
        lambda image, x: affine(image, (1, 0, -x, 0, 1, 0)),
        PIXELS,
    ),
    "translate_y": (
        lambda x, size: geometry.translate_matrix(0, x),
        lambda image, x: affine(image, (1, 0, 0, 0, 1, -x)),
        PIXELS,
    ),
    "rotate": (
        lambda x, size: geometry.rotate_matrix(x, height=size, width=size),
        lambda image, x: image.rotate(x, Image.NEAREST),
        [*linspace(-135, 135, 61), -90, 90, 180],
    ),
}


def check_same(operation, images, amounts, expected):
    """operation(image, amount) is `expected` [amounts, images], plain = jit = vmap."""
    over_images = jax.jit(jax.vmap(operation, (0, None)))
    found = np.stack([over_images(images, amount) for amount in amounts])
    assert found.dtype == np.uint8
    assert (found != expected).sum() == 0
    last = jnp.asarray(images[-1]), amounts[-1]
    np.testing.assert_array_equal(operation(*last), expected[-1, -1])
    np.testing.assert_array_equal(jax.jit(operation)(*last), expected[-1, -1])


@pytest.mark.parametrize("name", VALUE_OPERATIONS)
def test_value_operation_is_pillows(images, name):
    operation, reference, values = VALUE_OPERATIONS[name]
    expected = np.stack(
        [[from_pillow(reference(to_pillow(im), x)) for im in images] for x in values]
    )
    amounts = [jnp.asarray(x, jnp.int32 if name == "posterize" else jnp.float32)
               for x in values]  # fmt: skip
    check_same(operation, images, amounts, expected)


@pytest.mark.parametrize("name", WARPS)
def test_geometric_operation_is_pillows(images, name):
    make_matrix, reference, values = WARPS[name]
    values = [float(x) if isinstance(x, np.float32) else x for x in values]
    expected = np.stack(
        [[from_pillow(reference(to_pillow(im), x)) for im in images] for x in values]
    )
    matrices = [jnp.asarray(make_matrix(x, images.shape[1])) for x in values]
    check_same(lambda im, m: geometry.warp(im, matrix=m), images, matrices, expected)


def test_rotation_of_an_image_that_is_not_square():
    image = np.random.default_rng(0).integers(256, size=(20, 31, 3)).astype(np.uint8)
    matrix = jnp.asarray(geometry.rotate_matrix(40.0, height=20, width=31))
    expected = Image.fromarray(image).rotate(40.0, Image.NEAREST)
    np.testing.assert_array_equal(
        geometry.warp(jnp.asarray(image), matrix=matrix), np.asarray(expected)
    )


@pytest.mark.slow
def test_autocontrast_of_every_range_of_values():
    """All 32,640 pairs of darkest and brightest value, each with all between."""
    low, high = np.triu_indices(256, 1)
    rows = np.clip(np.arange(256)[None], low[:, None], high[:, None]).astype(np.uint8)
    images = rows.reshape(-1, 3, 256).transpose(0, 2, 1)[:, None]
    expected = np.stack(
        [np.asarray(ImageOps.autocontrast(Image.fromarray(image))) for image in images]
    )
    found = jax.jit(jax.vmap(color.autocontrast))(images)
    assert (np.asarray(found) != expected).sum() == 0


def test_blend_of_every_pair_of_values():
    """Compiled, where a fused multiply-add would change 1 pair in 1,000."""
    first, second = np.indices((256, 256), np.uint8)
    blend = jax.jit(lambda a, b, x: color.blend(a.astype(int), b, factor=x))
    for factor in FACTORS:
        found = blend(first[..., None], second[..., None], factor)
        expected = Image.blend(*map(Image.fromarray, (first, second)), float(factor))
        np.testing.assert_array_equal(found[..., 0], np.asarray(expected))
