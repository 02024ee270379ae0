"""Crops, flips and affine warps of one image.

Pixels are uint8, 0..255, as the operations of Pillow that these follow. What takes an
image [height, width, channels] returns one of the same shape.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, Key, UInt8

_PAD_MODES = {"zero": "constant", "reflect": "reflect", "edge": "edge"}


def random_crop(
    key: Key[Array, ""],
    image: UInt8[Array, "h w c"],
    *,
    padding_pixels: int,
    padding_mode: str,
) -> UInt8[Array, "h w c"]:
    """A window of the image's own size, at a uniform offset in the padded image.

    `padding_pixels` are added on each side: "zero" (black), "reflect" (without
    repeating the edge) or "edge".
    """
    p = padding_pixels
    padded = jnp.pad(image, ((p, p), (p, p), (0, 0)), mode=_PAD_MODES[padding_mode])
    top, left = jax.random.randint(key, (2,), 0, 2 * p + 1)
    return jax.lax.dynamic_slice(padded, (top, left, 0), image.shape)


def random_part(
    key: Key[Array, ""],
    *,
    height: int,
    width: int,
    area: tuple[float, float],
    ratio: tuple[float, float],
    largest: tuple[int, int],
    otherwise: tuple[int, int],
) -> tuple[Int32[Array, "2"], Int32[Array, "2"]]:
    """A random rectangle in an image: its first row and column, its height and width.

    As in torchvision, it is the first of ten draws that fits; its position is uniform.

    Args:
      key: draws all of this.
      height, width: of the image, pixels.
      area: smallest and largest area, as fractions of the image; uniform in between.
      ratio: smallest and largest height over width; its logarithm is uniform.
      largest: largest height and width that fit.
      otherwise: height and width if none of the draws fits.
    """
    draw_key, place_key = jax.random.split(key)
    unit = jax.random.uniform(draw_key, (2, 10))
    areas = height * width * (area[0] + (area[1] - area[0]) * unit[0])
    ratios = ratio[0] * jnp.exp(math.log(ratio[1] / ratio[0]) * unit[1])
    sizes = jnp.round(jnp.sqrt(jnp.stack([areas * ratios, areas / ratios])))
    fits = jnp.all((sizes > 0) & (sizes <= jnp.array(largest)[:, None]), axis=0)
    size = jnp.where(fits.any(), sizes[:, jnp.argmax(fits)], jnp.array(otherwise))
    size = size.astype(jnp.int32)
    free = jnp.array([height, width]) - size
    return jax.random.randint(place_key, (2,), 0, free + 1), size


def rectangle(
    start: Int[Array, "2"], end: Int[Array, "2"], *, height: int, width: int
) -> Bool[Array, "{height} {width}"]:
    """True from row and column `start` to before `end`, in an image of this size."""
    y, x = np.indices((height, width))
    return (y >= start[0]) & (x >= start[1]) & (y < end[0]) & (x < end[1])


def random_resized_crop(
    key: Key[Array, ""], image: UInt8[Array, "h w c"], *, min_area: float
) -> UInt8[Array, "h w c"]:
    """A random part of the image, enlarged to its size (Szegedy et al. 2015).

    At least the fraction `min_area`, above 0 and at most 1, of the image is kept. The
    part's height over width is 3/4 to 4/3. If no draw fits, it is the whole image, as
    in torchvision for square images.
    """
    height, width, _ = image.shape
    start, size = random_part(
        key,
        height=height,
        width=width,
        area=(min_area, 1),
        ratio=(3 / 4, 4 / 3),
        largest=(height, width),
        otherwise=(height, width),
    )
    return resized_crop(image, start=start, size=size)


def resized_crop(
    image: UInt8[Array, "h w c"], *, start: Int[Array, "2"], size: Int[Array, "2"]
) -> UInt8[Array, "h w c"]:
    """Enlarges a part to the size of the whole by bilinear interpolation.

    `start` is the part's first row and column, and `size` its height and width. Pixels
    have their values at their centres. The part is cut out before it is resized,
    so beyond its outermost centres their values are repeated. Pillow's resize does the
    same, but rounds in between: values differ by at most 1.
    """

    def neighbours(first, length, num):
        position = (np.arange(num, dtype=np.float32) + 0.5) * (length / num) - 0.5
        position = jnp.clip(position, 0, length - 1)
        low = jnp.floor(position)
        high = jnp.minimum(low + 1, length - 1)
        return (first + jnp.stack([low, high]).astype(jnp.int32)), position - low

    # Indexing: for 128 images of CIFAR-10 on a CPU it takes half the time of products
    # with matrices of weights.
    image = image.astype(jnp.float32)
    (above, below), fraction = neighbours(start[0], size[0], image.shape[0])
    fraction = fraction[:, None, None]
    rows = image[above] * (1 - fraction) + image[below] * fraction
    (left, right), fraction = neighbours(start[1], size[1], image.shape[1])
    fraction = fraction[None, :, None]
    resized = rows[:, left] * (1 - fraction) + rows[:, right] * fraction
    return jnp.round(resized).astype(jnp.uint8)


def random_flip(
    key: Key[Array, ""], image: UInt8[Array, "h w c"]
) -> UInt8[Array, "h w c"]:
    """Flips left to right with probability 1/2."""
    return jnp.where(jax.random.bernoulli(key), image[:, ::-1], image)


def alternating_flip(
    image: UInt8[Array, "h w c"],
    *,
    epoch: Int[Array, ""],
    index: Int[Array, ""],
    run_key: Key[Array, ""],
) -> UInt8[Array, "h w c"]:
    """Flips left to right in every other epoch (Jordan 2024, airbench).

    Two consecutive epochs thus show both views of each example, whereas independent
    flips would show the same view twice with probability 1/2.

    Args:
      epoch: number of the pass over the data.
      index: of the training example, from which its first view is drawn.
      run_key: draws the first views; constant during a run.
    """
    coin = jax.random.bernoulli(jax.random.fold_in(run_key, index))
    return jnp.where(coin ^ (epoch % 2 == 1), image[:, ::-1], image)


def warp(
    image: UInt8[Array, "h w c"], *, matrix: Int32[Array, "6"]
) -> UInt8[Array, "h w c"]:
    """Replaces each pixel by its nearest source pixel, exactly as Pillow does.

    Pixels whose source is outside the image are black. The matrix, from target to
    source, is one that `affine_matrix` returns.
    """
    height, width, channels = image.shape
    y, x = np.indices((height, width), np.int32)
    source_x = (matrix[0] * x + matrix[1] * y + matrix[2]) >> 16
    source_y = (matrix[3] * x + matrix[4] * y + matrix[5]) >> 16
    inside = (source_x >= 0) & (source_x < width)
    inside &= (source_y >= 0) & (source_y < height)
    pixels = image.reshape(-1, channels)
    source = jnp.where(inside, source_y * width + source_x, 0)
    return jnp.where(inside[:, :, None], pixels[source], jnp.uint8(0))


def affine_matrix(
    a: float, b: float, c: float, d: float, e: float, f: float
) -> Int32[np.ndarray, "6"]:
    """The matrix of source_x = a x + b y + c, source_y = d x + e y + f for `warp`.

    Coordinates are pixels, and (0, 0) is the corner of the image. Pillow evaluates them
    at pixel centres, in 16.16 fixed point; because that is integer arithmetic, `warp`
    gives Pillow's result on any device, ties included.
    """
    c += 0.5 * a + 0.5 * b
    f += 0.5 * d + 0.5 * e
    return np.floor(np.array([a, b, c, d, e, f]) * 65536 + 0.5).astype(np.int32)


def rotation(
    degrees: float, *, height: int, width: int
) -> tuple[float, float, float, float, float, float]:
    """Arguments of `affine_matrix`: counter-clockwise about the middle of the image."""
    angle = -math.radians(degrees % 360)
    cos, sin = round(math.cos(angle), 15), round(math.sin(angle), 15)
    x, y = width / 2, height / 2
    return cos, sin, x - cos * x - sin * y, -sin, cos, y + sin * x - cos * y
