"""A labelled set of images, and how one is divided into splits."""

import dataclasses

import numpy as np
from jaxtyping import Int

from vit_jax.data.permutation import HOLD_OUT, TEST_SPLIT, permutation
from vit_jax.data.rows import Rows
from vit_jax.errors import UserError

Counts = Int[np.ndarray, "classes"]


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Images with one class each; checked when it is made.

    Attributes:
      images: uint8 [n, height, width, channels], 0 to 255, with 1 (grey) or 3 (RGB)
        channels. An array, or `Rows` of one that lies in a file.
      labels: int32 [n], indices into `class_names`.
      class_names: all different; a class may have no image here.

    Raises:
      UserError: an array of another type or shape, no image at all, a label out of
        range (names the first one), or two classes with one name.
    """

    # No shapes here: __post_init__ checks them always, and in words.
    images: np.ndarray | Rows
    labels: np.ndarray
    class_names: tuple[str, ...]

    def __post_init__(self):
        images, labels = self.images, self.labels
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
        names = self.class_names
        twice = [name for i, name in enumerate(names) if name in names[:i]]
        if twice:
            raise UserError(
                f'Two classes are named "{twice[0]}"; give each a name of its own.'
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """Named classes, also those without an image here."""
        return len(self.class_names)

    def count_classes(self) -> Counts:
        """How many images each class has."""
        return np.bincount(self.labels, minlength=self.num_classes)

    def select(self, indices: Int[np.ndarray, "m"]) -> "Dataset":
        """The examples at `indices`, in that order."""
        return Dataset(self.images[indices], self.labels[indices], self.class_names)

    def part(self, indices: Int[np.ndarray, "m"]) -> "Dataset":
        """As `select`, but images that lie in a file stay there."""
        images = self.images
        if isinstance(images, np.memmap):
            images = Rows(images, np.arange(len(images)))
        if not isinstance(images, Rows):
            return self.select(indices)
        return Dataset(images.part(indices), self.labels[indices], self.class_names)


def _draw(
    dataset: Dataset, takes: list[Counts], *, seed: int, purpose: int
) -> list[Dataset]:
    """Disjoint random parts, in order; part i has takes[i][c] images of class c."""
    drawn = [[] for _ in takes]
    for label in range(dataset.num_classes):
        members = np.flatnonzero(dataset.labels == label)
        order = permutation(len(members), seed=seed, purpose=purpose, number=label)
        ends = np.cumsum([take[label] for take in takes])
        for part, piece in zip(drawn, np.split(members[order], ends)[:-1], strict=True):
            part.append(piece)
    return [dataset.part(np.sort(np.concatenate(part))) for part in drawn]


def _in_proportion(counts: Counts, total: int) -> Counts:
    """`total` shared out in proportion to `counts`, by largest remainders."""
    quotas, remainders = np.divmod(counts * total, counts.sum())
    # Stable: of two equal remainders the lower class is served first.
    served = np.argsort(-remainders, kind="stable")[: total - quotas.sum()]
    quotas[served] += 1
    return quotas


def split_off_test(dataset: Dataset) -> dict[str, Dataset]:
    """{"train", "test"} of data in one piece; "test" is a fifth of each class.

    The draw has a fixed seed: no setting moves an image from one split to the other.

    Raises:
      UserError: a class has fewer than two images.
    """
    counts = dataset.count_classes()
    if counts.min() < 2:
        raise UserError(
            f'The class "{dataset.class_names[counts.argmin()]}" has {counts.min()} '
            "image(s), but one to train and one to test on are needed; add images or "
            "remove the class."
        )
    test = np.maximum(1, (counts + 2) // 5)
    train, test = _draw(dataset, [counts - test, test], seed=0, purpose=TEST_SPLIT)
    return {"train": train, "test": test}


def with_test(splits: dict[str, Dataset]) -> dict[str, Dataset]:
    """`splits` with a "test": their own, else "val", else a fifth of "train"."""
    if "test" in splits:
        return splits
    if "val" in splits:
        return {"train": splits["train"], "test": splits["val"]}
    return split_off_test(splits["train"])


def hold_out(
    splits: dict[str, Dataset],
    *,
    validation: int,
    select_on: str = "val",
    train_per_class: int | None = None,
    val_per_class: int | None = None,
    subset_test_per_class: int = 0,
    seed: int = 0,
) -> dict[str, Dataset]:
    """The splits of a run: "train", "test", and perhaps "val" and "subset_test".

    "val" and "subset_test" are disjoint random parts of the data's own training split,
    drawn class by class; "train" is what remains, or a part of it. Examples keep their
    order. A "val" split that the data bring along is used as it is. Where the test
    split selects, "val" is that very object.

    Args:
      splits: the data's own: "train", "test", perhaps "val".
      validation: images for "val", shared out in proportion to the classes' sizes; 0:
        none are held out.
      select_on: "val", "test" or "nothing", as config.data.select_on has it.
      train_per_class: images of each class to keep in "train"; None: all that remain.
      val_per_class: images of each class for "val", in place of `validation`.
      subset_test_per_class: images of each class for "subset_test"; 0: no such split.
      seed: of the draws.

    Raises:
      UserError: a class has too few images, or settings contradict each other.
    """
    train, test = splits["train"], splits["test"]
    _check_selection(splits, validation, select_on, val_per_class)
    counts = train.count_classes()
    # What is held out is drawn first, so that it does not depend on train_per_class.
    takes = {
        "val": _val_counts(splits, counts, validation, val_per_class),
        "subset_test": np.full_like(counts, subset_test_per_class),
    }
    rest = counts - sum(takes.values())
    short = np.flatnonzero(rest < (train_per_class or 1))
    if short.size:
        label = short[0]
        raise UserError(
            f'The class "{train.class_names[label]}" has {counts[label]} training '
            f"images, too few for {takes['val'][label]} to validate on, "
            f"{subset_test_per_class} for the subset test and at least "
            f"{train_per_class or 1} to train on; lower config.data.validation, "
            "val_per_class, subset_test_per_class or train_per_class."
        )
    takes["train"] = rest if train_per_class is None else rest * 0 + train_per_class
    takes = {name: take for name, take in takes.items() if take.any()}
    if np.array_equal(takes["train"], counts):
        parts = {"train": train}  # Nothing is taken away: spare the copy.
    else:
        drawn = _draw(train, [*takes.values()], seed=seed, purpose=HOLD_OUT)
        parts = dict(zip(takes, drawn, strict=True))
    result = {"train": parts.pop("train")}
    if select_on == "test":
        result["val"] = test
    elif "val" in splits or "val" in parts:
        result["val"] = splits.get("val") or parts["val"]
    return {**result, "test": test} | parts


def _check_selection(
    splits: dict[str, Dataset],
    validation: int,
    select_on: str,
    val_per_class: int | None,
) -> None:
    held_out = {"val_per_class": val_per_class, "validation": validation}
    given = [key for key, value in held_out.items() if value]
    if select_on == "test" and given:
        raise UserError(
            f"config.data.select_on is test, but config.data.{given[0]} holds "
            f"{held_out[given[0]]} images out that nothing would use; set "
            f"config.data.{given[0]}={'None' if val_per_class else 0}, or "
            "config.data.select_on=val."
        )
    if "val" in splits and val_per_class is not None:
        raise UserError(
            f"config.data.val_per_class is {val_per_class}, but nothing is held out of "
            "these data, because they bring their own validation split; set it to None."
        )
    if select_on == "val" and not given and "val" not in splits:
        raise UserError(
            "config.data.select_on is val, but config.data.validation is 0 and no "
            "images are held out; give a number, or set config.data.select_on=nothing."
        )


def _val_counts(
    splits: dict[str, Dataset],
    counts: Counts,
    validation: int,
    val_per_class: int | None,
) -> Counts:
    if "val" in splits:
        return np.zeros_like(counts)
    if val_per_class is not None:
        return np.full_like(counts, val_per_class)
    return _in_proportion(counts, min(validation, int(counts.sum())))
