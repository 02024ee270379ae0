"""A labelled set of images, and how it is divided into splits."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int

from vit_jax.data.batches import HOLD_OUT, TEST_SPLIT, permutation
from vit_jax.data.rows import Rows
from vit_jax.errors import UserError, show

Counts = Int[np.ndarray, " classes"]


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Images with one class each; the constructor checks them.

    Attributes:
      images: uint8 [n, height, width, channels], 0 to 255, with 1 (grey) or 3 (RGB)
        channels. They are an array, or `Rows` of an array in a file.
      labels: int32 [n], indices into `class_names`.
      class_names: all different texts; a class may have no image in this set.

    Raises:
      UserError: an array has another type or shape, there is no image, a label is out
        of range (the message names the first one), or two classes share a name.
    """

    # The annotations have no shapes, because __post_init__ checks them.
    images: np.ndarray | Rows
    labels: np.ndarray
    class_names: tuple[str, ...]

    def __post_init__(self):
        images, labels, names = self.images, self.labels, tuple(self.class_names)
        arrays = isinstance(images, np.ndarray | Rows), isinstance(labels, np.ndarray)
        if not all(arrays):
            raise UserError(
                "Images and labels must be NumPy arrays, but are of the types "
                f"{type(images).__name__} and {type(labels).__name__}; convert them by "
                "numpy.asarray."
            )
        if not all(isinstance(name, str) for name in names):
            raise UserError(
                f"The names of classes must be texts, but are {show(names)}; "
                "convert them by tuple(map(str, names))."
            )
        # Names that are a list or an array are taken, too.
        object.__setattr__(self, "class_names", names)
        if images.dtype != np.uint8 or images.shape[3:] not in ((1,), (3,)):
            raise UserError(
                "Images must be uint8 of shape [n, height, width, 1 or 3], but are "
                f"{images.dtype} of shape {list(images.shape)}; convert the data."
            )
        if not images.size:
            raise UserError(
                f"There is no image in data of shape {list(images.shape)}; check where "
                "it was read from."
            )
        if labels.dtype != np.int32 or labels.shape != images.shape[:1]:
            raise UserError(
                f"Labels must be int32 of shape [{len(images)}], one for each image, "
                f"but are {labels.dtype} of shape {list(labels.shape)}; convert them."
            )
        wrong = np.flatnonzero((labels < 0) | (labels >= self.num_classes))
        if wrong.size:
            raise UserError(
                f"The label of example {wrong[0]} is {labels[wrong[0]]}, but must be 0 "
                f"to {self.num_classes - 1} with {self.num_classes} classes "
                f"({wrong.size} such labels in all); the data are damaged or the class "
                "names are incomplete."
            )
        twice = [name for i, name in enumerate(names) if name in names[:i]]
        if twice:
            raise UserError(
                f'Two classes are named "{twice[0]}"; give each a name of its own.'
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """The number of named classes, including those without an image."""
        return len(self.class_names)

    def count_classes(self) -> Counts:
        """The number of images of each class."""
        return np.bincount(self.labels, minlength=self.num_classes)

    def select(self, indices: Int[np.ndarray, " m"]) -> "Dataset":
        """The examples at `indices`, in the order of `indices`."""
        return Dataset(self.images[indices], self.labels[indices], self.class_names)

    def part(self, indices: Int[np.ndarray, " m"]) -> "Dataset":
        """The same as `select`, except that images in a file are not copied."""
        images = self.images
        if isinstance(images, np.memmap):
            images = Rows(images, np.arange(len(images)))
        if not isinstance(images, Rows):
            return self.select(indices)
        return Dataset(images.part(indices), self.labels[indices], self.class_names)


def named_splits(splits: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """The splits by the names of what they are.

    Where the test split selects the checkpoint it is also there as "val", under which
    it is left out.
    """
    test = splits["test"]
    return {k: split for k, split in splits.items() if k != "val" or split is not test}


def _draw(
    dataset: Dataset, takes: list[Counts], *, seed: int, purpose: int
) -> list[Dataset]:
    """Disjoint random parts; part i has takes[i][c] images of class c, in order."""
    drawn = [[] for _ in takes]
    for label in range(dataset.num_classes):
        members = np.flatnonzero(dataset.labels == label)
        order = permutation(len(members), seed=seed, purpose=purpose, number=label)
        ends = np.cumsum([take[label] for take in takes])
        for part, piece in zip(drawn, np.split(members[order], ends)[:-1], strict=True):
            part.append(piece)
    return [dataset.part(np.sort(np.concatenate(part))) for part in drawn]


def _in_proportion(counts: Counts, total: int) -> Counts:
    """`total` apportioned to the classes by `counts`, with the largest remainders."""
    quotas, remainders = np.divmod(counts * total, counts.sum())
    # The sort is stable: of two equal remainders the lower class comes first.
    rounded_up = np.argsort(-remainders, kind="stable")[: total - quotas.sum()]
    quotas[rounded_up] += 1
    return quotas


def with_test(splits: dict[str, Dataset]) -> dict[str, Dataset]:
    """`splits` with a "test": their own, or else "val", or else a fifth of "train".

    A fifth is a fifth of each class. Its draw has a fixed seed, so no setting moves an
    image to the other split.

    Raises:
      UserError: a class has fewer than two images.
    """
    if "test" in splits:
        return splits
    if "val" in splits:
        return {"train": splits["train"], "test": splits["val"]}
    dataset = splits["train"]
    counts = dataset.count_classes()
    if counts.min() < 2:
        name = dataset.class_names[counts.argmin()]
        raise UserError(
            f'The number of images of class "{name}" is {counts.min()}, but at least 2 '
            "are needed, one to train and one to test on; add images or remove the "
            "class."
        )
    test = np.maximum(1, (counts + 2) // 5)
    train, test = _draw(dataset, [counts - test, test], seed=0, purpose=TEST_SPLIT)
    return {"train": train, "test": test}


def hold_out(splits: dict[str, Dataset], config_data: Any) -> dict[str, Dataset]:
    """The splits of a run: "train", "test", and perhaps "val" and "subset_test".

    "val" and "subset_test" are disjoint random parts of the training split of the data,
    drawn class by class; "train" is the rest, or a part of it. Examples keep their
    order. If the data have a "val" split, it is used unchanged. With select_on="test",
    "val" is the same object as "test"; with "nothing" and no image held out, there is
    none.

    config_data.validation images, or config_data.validation_fraction of all, are
    apportioned to the classes by their sizes. Every class keeps an image to train on,
    and each of two or more images has one in "val" if the number allows that.

    Args:
      splits: those of the data: "train", "test", perhaps "val".
      config_data: the "data" group of the settings.

    Raises:
      UserError: a class has too few images, or settings contradict each other.
    """
    train, test = splits["train"], splits["test"]
    _check_selection(splits, config_data)
    counts = train.count_classes()
    # The hold-out is drawn first, so that it does not depend on train_per_class.
    takes = {
        "val": _val_counts(splits, counts, config_data),
        "subset_test": np.full_like(counts, config_data.subset_test_per_class),
    }
    rest, kept = counts - sum(takes.values()), config_data.train_per_class
    _check_rest(train, rest, takes, kept or 1)
    takes["train"] = rest if kept is None else np.full_like(counts, kept)
    takes = {name: take for name, take in takes.items() if take.any()}
    if np.array_equal(takes["train"], counts):
        parts = {"train": train}  # No image is held out, so no copy is needed.
    else:
        seed = config_data.split_seed
        drawn = _draw(train, [*takes.values()], seed=seed, purpose=HOLD_OUT)
        parts = dict(zip(takes, drawn, strict=True))
    result = {"train": parts.pop("train")}
    if config_data.select_on == "test":
        result["val"] = test
    elif "val" in splits or "val" in parts:
        result["val"] = splits.get("val") or parts["val"]
    return {**result, "test": test} | parts


def _check_rest(
    train: Dataset, rest: Counts, takes: dict[str, Counts], needed: int
) -> None:
    short = np.flatnonzero(rest < needed)
    if short.size:
        label = short[0]
        if label not in train.labels:
            raise UserError(
                f'The class "{train.class_names[label]}" has no training images, but '
                "every class needs some; leave it out of the data."
            )
        val, subset_test = takes["val"][label], takes["subset_test"][label]
        raise UserError(
            f'The class "{train.class_names[label]}" has '
            f"{rest[label] + val + subset_test} training images, too few for {val} to "
            f"validate on, {subset_test} for the subset test and at least {needed} to "
            "train on; lower config.data.validation, validation_fraction, "
            "val_per_class, subset_test_per_class or train_per_class."
        )


def _check_selection(splits: dict[str, Dataset], config_data: Any) -> None:
    select_on, val_per_class = config_data.select_on, config_data.val_per_class
    keys = ("val_per_class", "validation", "validation_fraction")
    given = {key: config_data[key] for key in keys if config_data[key]}
    if {"validation", "validation_fraction"} <= given.keys():
        raise UserError(
            f"config.data.validation is {given['validation']} and "
            f"config.data.validation_fraction is {given['validation_fraction']:g}, but "
            "one of them says how many images are held out; set the other one to 0."
        )
    if select_on == "test" and given:
        key = next(iter(given))
        raise UserError(
            f"config.data.select_on is test, but config.data.{key}={given[key]} "
            "holds out images, which would not be used; set "
            f"config.data.{key}={'None' if val_per_class else 0}, or "
            "config.data.select_on=val."
        )
    if "val" in splits and val_per_class is not None:
        raise UserError(
            f"config.data.val_per_class is {val_per_class}, but these data have "
            "their own validation split, so nothing is held out; set it to None."
        )
    if select_on == "val" and not given and "val" not in splits:
        raise UserError(
            "config.data.select_on is val, but config.data.validation is 0 and no "
            "images are held out; give a number, or set config.data.select_on=nothing."
        )


def _val_counts(splits: dict[str, Dataset], counts: Counts, config_data: Any) -> Counts:
    if "val" in splits:
        return np.zeros_like(counts)
    if config_data.val_per_class is not None:
        return np.full_like(counts, config_data.val_per_class)
    validation, total = config_data.validation, int(counts.sum())
    if config_data.validation_fraction:
        validation = max(1, round(config_data.validation_fraction * total))
    return _adjust(counts, _in_proportion(counts, min(validation, total)))


def _adjust(counts: Counts, takes: Counts) -> Counts:
    """Adjusts the images that each class gives, so that every class keeps one image.

    If their total allows, every class of two or more images also gives one.
    """
    total = takes.sum()
    most = np.maximum(counts - 1, 0)
    least = np.minimum(most, int(total >= (most > 0).sum()))
    adjusted = np.clip(takes, least, most)
    while adjusted.sum() != total:
        surplus = int(np.sign(adjusted.sum() - total))
        room = adjusted - least if surplus > 0 else most - adjusted
        if not room.any():
            return takes  # `_check_rest` says which class has too few.
        adjusted[room.argmax()] -= surplus
    return adjusted
