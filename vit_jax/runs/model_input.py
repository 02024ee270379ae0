"""Images from a user's program, as a model takes them."""

from typing import Any

import numpy as np
from jaxtyping import UInt8

from vit_jax.data import Rows
from vit_jax.errors import UserError


def as_images(
    images: Any, image_shape: tuple[int, int, int]
) -> UInt8[np.ndarray | Rows, "n height width channels"]:
    """Images as uint8, 0 to 255, where it is clear what they mean.

    Args:
      images: an array, or a list of arrays. Besides uint8 it may hold other whole
        numbers from 0 to 255 (as floats only if one is at least 32), or floats from 0
        to 1, which are multiplied by 255 and rounded. One image may come without the
        first axis, and grey images without the last one. No image at all is allowed.
      image_shape: height, width and channels that the model was trained on.

    Raises:
      UserError: another shape, or values whose meaning is not clear.
    """
    if getattr(images, "dtype", None) == np.uint8 and images.shape[1:] == image_shape:
        return images  # Rows of a file stay there.
    try:
        array = np.asarray(images)
    except ValueError:  # a list of arrays of different shapes
        array = np.asarray(None)
    if array.dtype.kind not in "uif":
        raise UserError(
            f"Images must be an array of numbers of shape [n, "
            f"{', '.join(map(str, image_shape))}], but {type(images).__name__} with "
            f"{array.dtype} was given; give uint8 images of one size, 0 to 255."
        )
    return _as_uint8(_with_all_axes(array, image_shape))


def _with_all_axes(array: np.ndarray, image_shape: tuple[int, int, int]) -> np.ndarray:
    if array.shape == (0,):  # as of an empty list
        array = array.reshape(0, *image_shape)
    shape = array.shape
    if image_shape[2] == 1 and shape[-2:] == image_shape[:2] and array.ndim in (2, 3):
        array = array[..., None]
    if array.shape == image_shape:
        array = array[None]
    if array.shape[1:] != image_shape:
        raise UserError(
            f"Images of shape {list(array.shape)} were given, but the model takes [n, "
            f"{', '.join(map(str, image_shape))}] (images, height, width, channels); "
            "resize or convert them."
        )
    return array


def _as_uint8(array: np.ndarray) -> np.ndarray:
    if array.dtype == np.uint8 or not array.size:
        return array.astype(np.uint8, copy=False)
    low, high = float(array.min()), float(array.max())
    if array.dtype.kind == "f" and low >= 0 and high <= 1:
        return np.rint(255.0 * array).astype(np.uint8)
    is_whole = low >= 0 and high <= 255 and (array == np.rint(array)).all()
    # Numbers of another type than uint8 may have another scale: scikit-learn's digits
    # are 0 to 16. Pictures of which the lightest is below 32 of 255 are rare.
    if is_whole and high >= 32:
        return array.astype(np.uint8)
    raise UserError(
        f"Images must be uint8 from 0 to 255, but {array.dtype} from {low:g} to "
        f"{high:g} was given, whose white is not known; scale them to floats from 0 to "
        "1, or to whole numbers from 0 to 255. Images that are normalised already go "
        "to run.model.apply."
    )
