"""Datasets as NumPy arrays: every source yields splits of the same form.

from_tfds.py, from_cifar_files.py, from_folder.py, from_digits.py   the sources
dataset.py       a labelled set of images, and how it is divided into splits
batches.py       which examples each step sees; random orders that no version of NumPy
                 changes
decoded.py, image_files.py, rows.py    images of folders, in memory or in a file
download.py, cifar_layouts.py    official files: fetched, checked, read

Imports `vit_jax.errors` and `files` only, and never JAX.
"""

import pathlib
from typing import Any

import numpy as np

from vit_jax.data import (
    batches,
    from_cifar_files,
    from_digits,
    from_folder,
    from_tfds,
)
from vit_jax.data.dataset import Dataset, hold_out, with_test
from vit_jax.data.rows import Rows
from vit_jax.errors import UserError, did_you_mean, show

__all__ = [
    "SOURCES",
    "STATISTICS",
    "Dataset",
    "Rows",
    "batches",
    "dataset_name",
    "hold_out",
    "known_shape",
    "load",
    "normalization",
]

# For each config.data.source, a function from the "data" group of the settings to the
# splits that the data themselves have.
SOURCES = {
    "tfds": lambda data: from_tfds.load(
        dataset_name(data),
        data.dir,
        archive=data.archive,
        download=data.download,
        image_size=data.image_size,
    ),
    "cifar_files": lambda data: from_cifar_files.load(
        dataset_name(data), data.dir, download=data.download
    ),
    "folder": lambda data: from_folder.load(data.dir, image_size=data.image_size),
    "digits": lambda data: from_digits.load(),
}

_BUILT_IN = frozenset(SOURCES)

# The sources that read a setting, where not all of them do.
_READ_BY = {
    "dir": ("tfds", "cifar_files", "folder"),
    "archive": ("tfds",),
    "image_size": ("tfds", "folder"),
}

# For each name of a dataset, mean and standard deviation of each channel over the
# official training split; white is 1.
STATISTICS = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "cifar100_coarse": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}

# For each name of a dataset, the shape of an image and the number of classes.
_SHAPES = {
    "cifar10": ((32, 32, 3), 10),
    "cifar100": ((32, 32, 3), 100),
    "cifar100_coarse": ((32, 32, 3), 20),
}


def dataset_name(config_data: Any) -> str:
    """config_data.name, or else what the source calls its data."""
    if config_data.name:
        return config_data.name
    if config_data.source == "folder":
        return pathlib.Path(config_data.dir).expanduser().absolute().name
    is_cifar = config_data.source in ("tfds", "cifar_files")
    return "cifar10" if is_cifar else config_data.source


def known_shape(config_data: Any) -> tuple[tuple[int, int, int], int] | None:
    """The shape of an image and the number of classes, without reading the data.

    None for folders and further datasets of TFDS, where only the data say so.
    """
    if config_data.source == "digits":
        return (8, 8, 1), 10
    if config_data.source not in ("tfds", "cifar_files"):
        return None
    known = _SHAPES.get(dataset_name(config_data))
    if known is None or not config_data.image_size:
        return known
    (_, _, channels), num_classes = known
    return (config_data.image_size, config_data.image_size, channels), num_classes


def load(config_data: Any) -> dict[str, Dataset]:
    """The splits of a run: "train", "test", and perhaps "val" and "subset_test".

    Args:
      config_data: the "data" group of the settings. With select_on="test" the "val"
        split is the same object as "test". With select_on="nothing" and nothing held
        out there is no "val".

    Raises:
      UserError: the source is unknown, the data cannot be read, their splits do not
        match each other, or a class has too few images for the hold-out.
    """
    if config_data.source not in SOURCES:
        raise UserError(
            f"There is no data source {show(config_data.source)}"
            f"{did_you_mean(config_data.source, SOURCES)}; config.data.source must be "
            f"one of {', '.join(SOURCES)}."
        )
    # A source of config.code may read any setting.
    unread = {k: v for k, v in _READ_BY.items() if config_data.source in _BUILT_IN}
    for key, sources in unread.items():
        if getattr(config_data, key) and config_data.source not in sources:
            raise UserError(
                f"config.data.{key} is {getattr(config_data, key)!r}, but the source "
                f"{config_data.source} does not read it; only {', '.join(sources)} do."
            )
    try:
        splits = SOURCES[config_data.source](config_data)
    except OSError as error:
        raise UserError(
            f"The data cannot be read with config.data.source={config_data.source} and "
            f"config.data.dir={show(config_data.dir)} ({error.strerror}); mend that or "
            "give another folder."
        ) from error
    is_mapping = isinstance(splits, dict) and "train" in splits
    if not is_mapping or not all(isinstance(s, Dataset) for s in splits.values()):
        raise UserError(
            f"The source {config_data.source} returned {splits!r:.200}, but must "
            'return {"train": Dataset, "test": Dataset}, and perhaps "val".'
        )
    splits = with_test(splits)
    train = splits["train"]
    for name, split in splits.items():
        if split.images.shape[1:] != train.images.shape[1:]:
            raise UserError(
                f"Images of the {name} split have shape {list(split.images.shape[1:])} "
                f"and those of the train split {list(train.images.shape[1:])}, but one "
                "shape was expected; set config.data.image_size or convert the data."
            )
    return hold_out(splits, config_data)


def normalization(
    config_data: Any, train: Dataset
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel for normalisation; white is 1.

    Each is config_data.mean or .std if given, else from `STATISTICS` for a named
    dataset, else computed from all pixels of `train`.

    Raises:
      UserError: the settings do not have one number for each channel, or a channel is
        constant.
    """
    channels = train.images.shape[-1]
    mean, std = config_data.mean, config_data.std
    for key, given in (("mean", mean), ("std", std)):
        if given is not None and len(given) != channels:
            raise UserError(
                f"The length of config.data.{key} is {len(given)}, but the number of "
                f"channels of the images is {channels}; give one number for each."
            )
    if mean is None or std is None:
        named = config_data.source in ("tfds", "cifar_files")
        known = STATISTICS.get(dataset_name(config_data)) if named else None
        usual_mean, usual_std = known or _measure(train)
        mean, std = mean or usual_mean, std or usual_std
    if 0 in std:
        raise UserError(
            f"Channel {std.index(0)} has one value in every training pixel and cannot "
            "be normalised; check the images or set config.data.std."
        )
    return tuple(mean), tuple(std)


def _measure(train: Dataset) -> tuple[tuple[float, ...], tuple[float, ...]]:
    # Counts of the 256 levels give exact results without a float copy, in one pass over
    # images that may be in a file.
    levels, channels = np.arange(256), train.images.shape[-1]
    counts = np.zeros((channels, 256), np.int64)
    for start in range(0, len(train), 1024):
        images = train.images[start : start + 1024]
        for channel in range(channels):
            counts[channel] += np.bincount(images[..., channel].ravel(), minlength=256)
    num_pixels = counts.sum(1)
    mean = counts @ levels / num_pixels
    variance = [
        ((levels - m) ** 2 * count).sum() / n
        for m, count, n in zip(mean, counts, num_pixels, strict=True)
    ]
    return tuple((mean / 255).tolist()), tuple((np.sqrt(variance) / 255).tolist())
