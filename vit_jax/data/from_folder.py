"""The user's own images: one folder for each class."""

import collections
import logging
import pathlib
import unicodedata
from collections.abc import Iterable

import numpy as np

from vit_jax.data.dataset import Dataset
from vit_jax.data.decoded import decode_files
from vit_jax.data.image_files import is_named_as_image, mode_name
from vit_jax.errors import UserError, shorten, show
from vit_jax.files import user_path

_LOGGER = logging.getLogger(__name__)
_MOST_WARNINGS = 5


def load(path: str, *, image_size: int | None = None) -> dict[str, Dataset]:
    """The splits of a folder, as RGB, with classes and files sorted by name.

        path/train/cat/1.png   path/test/cat/2.png   (test, val or both)
        path/cat/1.png                               (all of them are "train")

    Warnings name files that are no images and images outside of class folders, which
    are skipped, and the number of grey, palette and transparent images, which are
    converted. Names that begin with a dot are ignored. A split that is large once
    decoded is kept in a file, see `decoded`.

    Args:
      path: the folder.
      image_size: side in pixels of the square that every image is resized to; None: all
        images have the same size.

    Raises:
      UserError: the folder is missing or has no classes, a class is empty, two classes
        share a name, splits have different classes, images have different sizes, one is
        too large, or the disk is full.
    """
    root = user_path(path)
    if not path or not root.is_dir():
        raise UserError(
            f"config.data.dir is {show(path)}, which is no folder, but must name one "
            "with a folder of images for each class, or with such folders under train/ "
            "and test/."
        )
    splits, modes = {}, collections.Counter()
    known = ("train", "val", "test")
    folders = {split: root / split for split in known if (root / split).is_dir()}
    if "train" not in folders:
        if folders:
            first = next(iter(folders))
            raise UserError(
                f"{root} has a folder {first}, which is a split, but no train; move "
                f"the class folders into {root / 'train'}, or rename {first}."
            )
        folders = {"train": root}
    elif others := sorted(set(_visible_folders(root)) - set(known)):
        _LOGGER.warning(
            "Not read, as only train, val and test are: %s", shorten(others, 4)
        )
    _warn_of_loose_images({root, *folders.values()})
    names = _class_names(folders["train"])
    for split, folder in folders.items():
        if differing := set(names).symmetric_difference(_class_names(folder)):
            raise UserError(
                f"{folder} and {folders['train']} have different classes: "
                f"{', '.join(sorted(differing))} in only one; give every split every "
                "class."
            )
        splits[split] = _read_split(folder, names, image_size, modes)
    converted = ", ".join(
        f"{n} {mode_name(m)}" for m, n in sorted(modes.items()) if m != "RGB"
    )
    if converted:
        _LOGGER.warning("Converted to RGB: %s of %d images.", converted, modes.total())
    return splits


def _warn_of_loose_images(folders: Iterable[pathlib.Path]) -> None:
    """Names images that belong to no class, since they lie beside the class folders."""
    loose = sorted(
        str(file)
        for folder in folders
        for file in folder.iterdir()
        if is_named_as_image(file) and file.is_file()
    )
    if loose:
        _LOGGER.warning(
            "Not read, as images must be in the folder of a class: %s",
            shorten(loose, 4),
        )


def _class_names(folder: pathlib.Path) -> tuple[str, ...]:
    """Names of the class folders; they must differ by more than case or encoding."""
    names = tuple(_visible_folders(folder))
    if not names:
        raise UserError(f"{folder} has no class folders; make one for each class.")
    seen = {}
    for name in names:
        key = unicodedata.normalize("NFC", name.strip()).casefold()
        if key in seen:
            raise UserError(
                f'{folder} has two classes with one name, "{seen[key]}" and "{name}"; '
                "rename or merge them."
            )
        seen[key] = name
    return names


def _visible_folders(folder: pathlib.Path) -> list[str]:
    entries = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    return [name for name in entries if not name.startswith(".")]


def _read_split(
    folder: pathlib.Path,
    names: tuple[str, ...],
    image_size: int | None,
    modes: collections.Counter,
) -> Dataset:
    files = [
        (file, label)
        for label, name in enumerate(names)
        for file in sorted((folder / name).iterdir())
        if file.is_file() and not file.name.startswith(".")
    ]
    deeper = [
        f"{name}/{inside}"
        for name in names
        for inside in _visible_folders(folder / name)
    ]
    if deeper:
        _LOGGER.warning(
            "Not read, as only images directly in a class folder are: %s",
            shorten(deeper, 4),
        )
    found = decode_files(
        [file for file, _ in files], root=folder, image_size=image_size
    )
    for reason in found.skipped[:_MOST_WARNINGS]:
        _LOGGER.warning("Skipped, no readable image: %s", reason)
    if (more := len(found.skipped) - _MOST_WARNINGS) > 0:
        _LOGGER.warning("Skipped, no readable image: %d more files", more)
    modes.update(found.modes)
    labels = np.array([files[index][1] for index in found.kept], np.int32)
    empty = sorted(set(range(len(names))) - set(labels.tolist()))
    if empty:
        raise UserError(
            f"The class folder {folder / names[empty[0]]} has no readable image "
            "directly in it; add some or remove the class."
        )
    return Dataset(found.images, labels, names)
