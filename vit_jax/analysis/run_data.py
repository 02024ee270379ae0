"""The data a run was trained on, loaded again to score it."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import UInt8

from vit_jax import data
from vit_jax.config import apply_overrides
from vit_jax.errors import UserError, require_known, show
from vit_jax.figures import style
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.run import Run
from vit_jax.training import scoring


def load_splits(
    run: Run, moved: Mapping[str, str] | None = None
) -> tuple[Run, dict[str, data.Dataset]]:
    """(run, splits) to score: its own data, wherever they lie.

    The run that is returned has the moved settings.

    Args:
      moved: value, as text, of each of `command_line.MOVABLE` that differs from the
        run's own.

    Raises:
      UserError: a value that is refused, data that cannot be read, or other data.
    """
    overrides = [f"--config.{key}={value}" for key, value in (moved or {}).items()]
    config = apply_overrides(run.config, overrides)
    splits = data.load(config.data)
    trained = RunFolder(run.workdir).read("dataset")
    found = scoring.describe_dataset(splits)
    if found != trained:
        theirs = {key: value for key, value in trained.items() if value != found[key]}
        ours = {key: found[key] for key in theirs}
        raise UserError(
            f"The run was trained on {show(theirs)}, but the data found are "
            f"{show(ours)}; give the dataset it was trained on."
        )
    return dataclasses.replace(run, config=config), splits


# Limit on the images whose attention weights are in memory at once.
MAX_IMAGES = 64


def read_split(
    splits: Mapping[str, data.Dataset], split: str = "test", indices: str | None = None
) -> tuple[list[str], UInt8[np.ndarray, "n height width channels"]]:
    """(captions, images) of a split; a caption has the number and the class.

    Args:
      indices: in the split, "0,1,2" for example, of which a repeated one counts once;
        None: `MAX_IMAGES` drawn at random, always the same ones.

    Raises:
      UserError: no such split or image.
    """
    require_known(split, data.named_splits(splits), "split", "give")
    dataset = splits[split]
    if indices is None:
        # The first ones would be of one class in a folder of images.
        numbers = data.batches.draw_shown(len(dataset), MAX_IMAGES)
    else:
        given = (_index(text, split, dataset) for text in indices.split(","))
        numbers = np.array(list(dict.fromkeys(given)))
    chosen = dataset.select(numbers)
    short = style.short_names(dataset.class_names)
    captions = [
        f"{number}: true {short[label]}"
        for number, label in zip(numbers, chosen.labels, strict=True)
    ]
    return captions, chosen.images


def _index(text: str, split: str, dataset: data.Dataset) -> int:
    try:
        index = int(text)
    except ValueError:  # no number, or one of more than 4,300 digits
        index = -1
    if not 0 <= index < len(dataset):
        raise UserError(
            f'--indices has "{text[:99]}", but the {split} split has the images 0 to '
            f"{len(dataset) - 1}; write for example --indices=0,1,2."
        )
    return index
