"""Reads one image file as an array, for training and for prediction."""

import contextlib
import io
import pathlib
import threading
import warnings
from collections.abc import Iterator

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from vit_jax.errors import UserError

# 33 megapixels: to read a transparent image of this size takes less than 1 GB.
MAX_PIXELS = 1 << 25
# The usual raster formats; other readers of Pillow are not needed.
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
# Many threads read files, and warning filters are shared by the whole process.
_OPENING = threading.Lock()
# The pixels of each image that is decoded now, and who waits for them to be fewer.
_DECODED: list[int] = []
_ROOM = threading.Condition()
_SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N")


class UnreadableImageError(Exception):
    """A file is no image or is damaged; the caller reports and skips it."""


def is_named_as_image(path: pathlib.Path) -> bool:
    """Whether the name ends as those of an image format that is read do.

    Hidden files, such as those that macOS writes beside others, do not count.
    """
    image_format = Image.registered_extensions().get(path.suffix.lower())
    return image_format in _FORMATS and path.name[0] != "."


@contextlib.contextmanager
def _decoding(num_pixels: int) -> Iterator[None]:
    """Waits until the images that all threads decode have MAX_PIXELS in all.

    So the memory for decoding does not grow with the number of threads, except for what
    the allocator keeps for each.
    """
    with _ROOM:
        _ROOM.wait_for(lambda: sum(_DECODED) + num_pixels <= MAX_PIXELS)
        _DECODED.append(num_pixels)
    try:
        yield
    finally:
        with _ROOM:
            _DECODED.remove(num_pixels)
            _ROOM.notify_all()


def read_image(
    path: pathlib.Path, image_size: int | None = None
) -> tuple[UInt8[np.ndarray, "height width 3"], str]:
    """The first frame of an image file as RGB, and the mode of the file in Pillow.

    The EXIF orientation is applied. Grey, palette and CMYK images are converted to RGB
    and 16 bits to 8, and transparent parts become white. An image that is no square is
    resized without distortion, and what exceeds the square on its longer sides is cut
    off equally. Pixels of 32 bits or of floats are refused. A JPEG of more than
    MAX_PIXELS pixels is read with half as many columns and rows, one of more than three
    times as many with a quarter.

    Args:
      path: a PNG, JPEG, WebP, BMP, GIF, TIFF or PPM file.
      image_size: side in pixels of the square it is resized to; None: it is not
        resized.

    Raises:
      UnreadableImageError: the file is missing, no image, or cut off; or it has pixels
        of more than 16 bits.
      UserError: the image has more than MAX_PIXELS pixels and is no JPEG, or has more
        than twice Pillow's MAX_IMAGE_PIXELS; it is not decoded.
    """
    try:
        with _OPENING, warnings.catch_warnings():
            # Pillow only warns above its own limit; MAX_PIXELS is checked below.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(path, formats=_FORMATS)
        with image:
            num_pixels = image.width * image.height
            if num_pixels > MAX_PIXELS:
                # A JPEG is decoded at a fraction of its size; other formats cannot be.
                scale = 2 if num_pixels <= 3 * MAX_PIXELS else 4
                image.draft(None, (image.width // scale, image.height // scale))
            if image.width * image.height > MAX_PIXELS:
                raise _too_large(path, f"{image.width}x{image.height}")
            mode = image.mode
            # 16 bits of a PGM file come as 32.
            is_deep = mode in _SIXTEEN_BIT or (mode == "I" and image.format == "PPM")
            # A progressive JPEG is held whole even if it is decoded smaller.
            with _decoding(min(num_pixels, MAX_PIXELS)):
                rgb = _to_rgb(_upright(image), is_deep)
                if image_size is not None:
                    rgb = fit(rgb, image_size, image_size)
    except Image.DecompressionBombError as error:
        raise _too_large(path, "far too many") from error
    except UnidentifiedImageError as error:
        raise UnreadableImageError(
            f"{path}: it is no image of a kind that can be read ({', '.join(_FORMATS)})"
        ) from error
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        # The text of an OSError may repeat the path.
        what = getattr(error, "strerror", None) or error
        raise UnreadableImageError(f"{path}: {what}") from error
    return np.asarray(rgb), mode


def mode_name(mode: str) -> str:
    """What a mode of Pillow is in words, such as "grey" for "L"."""
    names = {"1": "black and white", "L": "grey", "P": "palette", "RGBA": "transparent"}
    names |= {"LA": "transparent grey", "I": "grey of 16 bits"}
    names |= dict.fromkeys(_SIXTEEN_BIT, "grey of 16 bits")
    return names.get(mode, mode)


def fit(image: Image.Image, height: int, width: int) -> Image.Image:
    """The image resized, bilinearly with antialiasing, and cropped around its centre.

    As much of it is kept as its proportions and those of the result allow.
    """
    return ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)


def decode_image(
    encoded: bytes, num_channels: int, image_size: int | None = None
) -> UInt8[np.ndarray, "height width {num_channels}"]:
    """A grey or RGB image of a dataset, as a PNG or JPEG file would hold it.

    Args:
      encoded: content of the file.
      num_channels: 1 or 3, to which others are converted.
      image_size: side in pixels of a square to which it is resized and cropped, as
        `fit` does; None keeps its size.
    """
    image = Image.open(io.BytesIO(encoded)).convert({1: "L", 3: "RGB"}[num_channels])
    if image_size:
        image = fit(image, image_size, image_size)
    return np.asarray(image).reshape(image.height, image.width, num_channels)


def _too_large(path: pathlib.Path, found: str) -> UserError:
    return UserError(
        f"{path} has {found} pixels, more than the {MAX_PIXELS} that are accepted, and "
        "was not decoded; make it smaller."
    )


def _upright(image: Image.Image) -> Image.Image:
    """The image turned as its EXIF data say, if these can be read."""
    image.load()
    try:
        image.getexif()
    except Exception:  # of damaged data, of whatever kind
        return image
    # Pillow would write these data anew, and cannot write all that it can read.
    for key in ("exif", "Raw profile type exif"):
        image.info.pop(key, None)
    return ImageOps.exif_transpose(image)


def _to_rgb(image: Image.Image, is_deep: bool) -> Image.Image:
    if is_deep:  # Pillow would clip at 255.
        deep = np.asarray(image)
        pixels = (deep >> 8).astype(np.uint8)
        # PNG has one value of 16 bits that is transparent.
        if (transparent := image.info.get("transparency")) is not None:
            pixels[deep == transparent] = 255
        image = Image.fromarray(pixels)
    elif image.mode in ("F", "I"):
        raise ValueError(
            f"pixels of 32 bits (mode {image.mode}), whose white is not known"
        )
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return image.convert("RGB")
