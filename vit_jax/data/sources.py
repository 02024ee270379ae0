"""The data that the settings name: read from their source and divided into splits."""

from typing import Any

from vit_jax.data import from_cifar_files, from_digits, from_folder, from_tfds
from vit_jax.data.dataset import Dataset, hold_out, with_test
from vit_jax.errors import UserError, require_known, shorten, show, user_code_fails
from vit_jax.files import user_path

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

# The datasets whose images are known to be RGB of 32 x 32 pixels.
_NUM_CLASSES = {"cifar10": 10, "cifar100": 100, "cifar100_coarse": 20}


def dataset_name(config_data: Any) -> str:
    """What the data are called: config_data.name, where the source reads that."""
    if config_data.source == "folder":
        return user_path(config_data.dir).absolute().name
    if config_data.source == "digits":
        return "digits"
    is_cifar = config_data.source in ("tfds", "cifar_files")
    return config_data.name or ("cifar10" if is_cifar else config_data.source)


def known_shape(config_data: Any) -> tuple[tuple[int, int, int], int] | None:
    """The shape of an image and the number of classes, without reading the data.

    None for folders and further datasets of TFDS, where only the data say so.
    """
    if config_data.source == "digits":
        return (8, 8, 1), 10
    if config_data.source not in ("tfds", "cifar_files"):
        return None
    num_classes = _NUM_CLASSES.get(dataset_name(config_data))
    if num_classes is None:
        return None
    side = config_data.image_size or 32
    return (side, side, 3), num_classes


def load(config_data: Any) -> dict[str, Dataset]:
    """The splits of a run, as `with_test` and `hold_out` make them of the data.

    Args:
      config_data: the "data" group of the settings.

    Raises:
      UserError: the source is unknown, the data cannot be read, their splits do not
        match each other, or a class has too few images for the hold-out.
    """
    where = "config.data.source must be in the file that config.code names, or"
    require_known(config_data.source, SOURCES, "data source", where)
    for key, sources in _READ_BY.items():
        # A source of config.code may read any setting.
        reads = config_data.source in sources or config_data.source not in _BUILT_IN
        if config_data[key] and not reads:
            # Every source's images can be resized later, on the device.
            instead = " or set config.data.resize" if key == "image_size" else ""
            raise UserError(
                f"config.data.{key} is {config_data[key]!r}, but the source "
                f"{config_data.source} does not read it, only {', '.join(sources)} do; "
                f"leave it out{instead}."
            )
    splits = with_test(_read(config_data))
    _require_one_kind(splits)
    return hold_out(splits, config_data)


def _read(config_data: Any) -> dict[str, Dataset]:
    """The splits that the source returns; its errors are sentences."""
    try:
        splits = SOURCES[config_data.source](config_data)
    except OSError as error:
        file = f": {error.filename}" if error.filename else ""
        raise UserError(
            f"The data cannot be read with config.data.source={config_data.source} and "
            f"config.data.dir={show(config_data.dir)} ({error.strerror or error}"
            f"{file}); mend that or give another folder."
        ) from error
    except Exception as error:
        if config_data.source in _BUILT_IN:
            raise
        what = f"The source {config_data.source} of config.code"
        raise user_code_fails(what, error) from error
    is_mapping = isinstance(splits, dict) and "train" in splits
    if not is_mapping or not all(isinstance(s, Dataset) for s in splits.values()):
        raise UserError(
            f"The source {config_data.source} returned a {type(splits).__name__}, but "
            'must return the mapping {"train": Dataset, "test": Dataset}, and perhaps '
            '"val", of vit_jax.data.Dataset.'
        )
    if not splits.keys() <= {"train", "val", "test"}:
        raise UserError(
            f"The source {config_data.source} returned splits named "
            f'{", ".join(map(show, splits))}, but only "train", "val" and "test" are '
            "read; rename them."
        )
    return splits


def _require_one_kind(splits: dict[str, Dataset]) -> None:
    """Refuses splits whose images or classes differ."""
    train = splits["train"]
    for name, split in splits.items():
        if split.images.shape[1:] != train.images.shape[1:]:
            raise UserError(
                f"Images of the {name} split have shape {list(split.images.shape[1:])} "
                f"and those of the train split {list(train.images.shape[1:])}, but one "
                "shape was expected; set config.data.image_size or convert the data."
            )
        if tuple(split.class_names) != tuple(train.class_names):
            raise UserError(
                f"The {name} split has the classes {shorten(split.class_names, 10)} "
                f"and the train split {shorten(train.class_names, 10)}, but labels "
                "mean the same only with the same classes in the same order; give all "
                "splits those of the train split."
            )
