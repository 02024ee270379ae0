"""The data a run was trained on, loaded again to score it."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from ml_collections import ConfigDict

from vit_jax import data
from vit_jax.config import apply_overrides, flatten
from vit_jax.errors import UserError, did_you_mean
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import Run
from vit_jax.training import scoring

# Where the data lie, and how they are read: all that scoring may change of a run.
MOVABLE = (
    "data.source",
    "data.dir",
    "data.archive",
    "data.download",
    "eval_batch_size",
)

DATA_EPILOG = (
    "Where the data lie may be given as for main, for example --config.data.dir=DIR on "
    "another machine."
)


def load_splits(
    run: Run, overrides: Sequence[str] = (), flags: Sequence[str] = ()
) -> tuple[ConfigDict, dict[str, data.Dataset]]:
    """(config, splits) to score a run on: its own data, wherever they lie now.

    Args:
      overrides: "--config.data.dir=DIR" and the like; what decides which images are in
        a split, or what the model is, cannot be changed here.
      flags: the command's other arguments, for "did you mean".

    Raises:
      UserError: another setting, data that cannot be read, or other data.
    """
    config = apply_overrides(run.config, overrides, flags)
    before, after = dict(flatten(run.config)), dict(flatten(config))
    fixed = [k for k in after if after[k] != before[k] and k not in MOVABLE]
    if fixed:
        raise UserError(
            f"config.{fixed[0]} belongs to the trained run and cannot be changed here; "
            f"only {', '.join(MOVABLE)} can."
        )
    splits = data.load(config.data)
    trained = RunFolder(run.workdir).read("dataset")
    found = scoring.describe_dataset(splits)
    if found != trained:
        raise UserError(
            f"The run was trained on {trained}, but the data found are {found}; give "
            "the dataset it was trained on."
        )
    return config, splits


def choose_split(splits: dict[str, data.Dataset], name: str) -> data.Dataset:
    """The split of that name.

    Raises:
      UserError: there is none.
    """
    if name not in splits:
        raise UserError(
            f"There is no split {name}{did_you_mean(name, splits)}; this run has "
            f"{', '.join(splits)}."
        )
    return splits[name]


# Of the images whose attention is held at once.
MAX_IMAGES = 64


def read_split(
    run: Run,
    split: str = "test",
    indices: str | None = None,
    overrides: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> tuple[list[str], UInt8[np.ndarray, "n height width channels"]]:
    """(captions, images) of a split; see `run_data.load_splits` for the last two.

    Args:
      indices: in the split, "0,1,2" for example; None: the first `MAX_IMAGES`.

    Raises:
      UserError: no such split or image, or data that cannot be read.
    """
    _, splits = load_splits(run, overrides, flags)
    dataset = choose_split(splits, split)
    first = ",".join(map(str, range(min(MAX_IMAGES, len(dataset)))))
    texts = (first if indices is None else indices).split(",")
    numbers = [int(text) if text.strip().isdecimal() else -1 for text in texts]
    for text, number in zip(texts, numbers, strict=True):
        if not 0 <= number < len(dataset):
            raise UserError(
                f'--indices has "{text}", but the {split} split has the images 0 to '
                f"{len(dataset) - 1}; write for example --indices=0,1,2."
            )
    chosen = dataset.select(np.array(numbers))
    return [dataset.class_names[label] for label in chosen.labels], chosen.images
