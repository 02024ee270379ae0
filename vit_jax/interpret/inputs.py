"""Image files as input of a model."""

import os
import pathlib
import sys
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from vit_jax.data.image_files import (
    UnreadableImageError,
    fit,
    is_named_as_image,
    mode_name,
    read_image,
)
from vit_jax.errors import UserError

# Longer side of a photo in a figure, in pixels: more than a panel needs in print.
_MAX_PHOTO_SIDE = 1200


def find_images(paths: Iterable[str]) -> list[pathlib.Path]:
    """The files given, and all images in and below the folders given, sorted by name.

    Raises:
      UserError: a folder without an image, or an empty name.
    """
    found = []
    for name in paths:
        if not name:  # It would stand for the current folder.
            raise UserError(
                "The name of an image file is empty, but must be that of a file or "
                "folder; give one, or leave it out."
            )
        path = pathlib.Path(name)
        files = [path]
        # Unlike Path.is_dir, it raises nothing: what cannot be read is skipped later.
        if os.path.isdir(path):
            files = sorted(
                file
                for file in path.rglob("*")
                if is_named_as_image(file) and file.is_file()
            )
            if not files:
                raise UserError(
                    f"The folder {path} holds no image, as no name ends in .jpg, .png "
                    "or the like; give another folder, or the files themselves."
                )
        found += files
    return found


def read_photo(
    path: pathlib.Path, image_shape: tuple[int, int, int]
) -> UInt8[np.ndarray, "rows columns 3"]:
    """The part of an image file that a model sees, for a figure: upright, in colour.

    It has its own size, or 1200 pixels on the longer side if that is less. A heat map
    of what `read_images` makes of the file covers all of it.

    Raises:
      UnreadableImageError, UserError: see `read_image`.
    """
    photo = Image.fromarray(read_image(path)[0])
    height, width = image_shape[:2]
    scale = min(photo.height / height, photo.width / width)
    scale = min(scale, _MAX_PHOTO_SIDE / max(height, width))
    size = (max(1, round(scale * side)) for side in (height, width))
    return np.asarray(fit(photo, *size))


def read_images(
    files: Iterable[pathlib.Path], image_shape: tuple[int, int, int]
) -> Iterator[tuple[pathlib.Path, UInt8[np.ndarray, "height width channels"]]]:
    """Yields (file, image) of the files that can be read, as a model takes images.

    They are resized and cropped, as training images are, so that nothing is distorted.
    Files that cannot be read are named on standard error, as are files whose channels
    are converted.
    """
    height, width, channels = image_shape
    wanted = {1: "L", 3: "RGB"}[channels]
    for file in files:
        try:
            rgb, mode = read_image(file)
        except (UnreadableImageError, UserError) as error:
            print(f"skipped: {error}", file=sys.stderr)
            continue
        if mode != wanted:
            found, needed = mode_name(mode), mode_name(wanted)
            note = f"note: {file} is {found}, but the model takes {needed}; converted"
            print(note, file=sys.stderr)
        image = fit(Image.fromarray(rgb), height, width).convert(wanted)
        yield file, np.asarray(image).reshape(image_shape)
