"""One image file to one array, for training folders and for prediction alike."""

import pathlib
import threading
import warnings

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

from vit_jax.errors import UserError

# 8192 x 8192: above what cameras make, and at most 0.25 GB once decoded.
MAX_PIXELS = 1 << 26
# Plain raster formats only: the rest of Pillow's readers stay unused.
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
# Warning filters belong to the whole process, and files are read by many threads.
_OPENING = threading.Lock()
_SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N")


class UnreadableImageError(Exception):
    """A file that is no image, or a damaged one; the caller names and skips it."""


def read_image(
    path: pathlib.Path, image_size: int | None = None
) -> tuple[UInt8[np.ndarray, "height width 3"], str]:
    """The first frame of an image file as RGB, and the mode it was stored in.

    Turned upright by its EXIF orientation. Grey, palette and CMYK images become RGB, 16
    bits become 8, and transparent parts are laid on white.

    Args:
      path: a PNG, JPEG, WebP, BMP, GIF, TIFF or PPM file.
      image_size: side in pixels of the square it is resized to, whatever its shape;
        None: as it is.

    Raises:
      UnreadableImageError: no such image, or it is cut off.
      UserError: more than MAX_PIXELS pixels; they are not decoded.
    """
    try:
        with _OPENING, warnings.catch_warnings():
            # Pillow's own, milder cap, which only warns; ours is checked below.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(path, formats=_FORMATS)
        with image:
            if image.width * image.height > MAX_PIXELS:
                raise _too_large(path, f"{image.width}x{image.height}")
            mode = image.mode
            rgb = _to_rgb(ImageOps.exif_transpose(image))
    except Image.DecompressionBombError as error:
        raise _too_large(path, "far too many") from error
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise UnreadableImageError(f"{path}: {error}") from error
    if image_size is not None:
        rgb = rgb.resize((image_size, image_size), Image.Resampling.BILINEAR)
    return np.asarray(rgb), mode


def resize_image(
    image: UInt8[np.ndarray, "height width channels"], image_size: int
) -> UInt8[np.ndarray, "image_size image_size channels"]:
    """Resizes to a square as `read_image` does: bilinear, with antialiasing."""
    if image.shape[:2] == (image_size, image_size):
        return image
    resized = Image.fromarray(image.squeeze(-1) if image.shape[-1] == 1 else image)
    resized = resized.resize((image_size, image_size), Image.Resampling.BILINEAR)
    return np.asarray(resized).reshape(image_size, image_size, -1)


def _too_large(path: pathlib.Path, found: str) -> UserError:
    return UserError(
        f"{path} has {found} pixels, more than the {MAX_PIXELS} that are accepted, and "
        "was not decoded; make it smaller."
    )


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode in _SIXTEEN_BIT:  # Pillow would clip at 255.
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return image.convert("RGB")
