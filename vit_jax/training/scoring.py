"""Scoring: every image of a split counts exactly once."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from flax import linen as nn
from jax.sharding import Mesh
from jaxtyping import Float, Int, Shaped, UInt8
from ml_collections import ConfigDict

from vit_jax import data
from vit_jax.data import batches
from vit_jax.metrics import calibration, classification
from vit_jax.models import backend
from vit_jax.parallel import mesh as meshes
from vit_jax.runs.run import normalize


def jit_on(
    mesh: Mesh, function: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """A function of (variables, images [b, h, w, c]), compiled on first use.

    The images are divided over the devices of the mesh, the result is copied to all,
    and the variables keep the sharding that they have.
    """
    return backend.jit(
        function,
        in_shardings=(None, meshes.split_batch(mesh)),
        out_shardings=meshes.replicated(mesh),
    )


def make_eval_step(
    config_data: ConfigDict, model: nn.Module, mesh: Mesh
) -> Callable[[Any, Any], Any]:
    """(variables, images uint8 [b, h, w, c]) -> float32 logits [b, classes], without
    augmentation or dropout; see `jit_on`."""

    def eval_step(variables, images):
        return model.apply(variables, normalize(images, config_data), train=False)

    return jit_on(mesh, eval_step)


def brief_scores(
    logits: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, " n"]
) -> dict[str, float]:
    """{"accuracy", "loss"}, which are compared during training."""
    return {
        "accuracy": classification.accuracy(logits, labels),
        "loss": classification.cross_entropy(logits, labels),
    }


def round_up(batch_size: int, mesh: Mesh) -> int:
    """The batch size as a multiple of the devices, each of which gets an equal part."""
    return math.ceil(batch_size / mesh.size) * mesh.size


def score_split(
    variables: Any,
    images: UInt8[np.ndarray | data.Rows, "n height width channels"],
    *,
    eval_step: Callable,
    batch_size: int,
    mesh: Mesh,
) -> Shaped[np.ndarray, "n ..."]:
    """What `eval_step` gives for every image, in order: float32 logits, in general.

    The last batch is padded with copies of the first image, whose logits are removed:
    each image counts exactly once, whatever the batch size, which `round_up` changes.
    """
    logits, batch_size = [], round_up(batch_size, mesh)
    for indices, mask in batches.eval_batches(len(images), batch_size):
        batch = meshes.put(images[indices], meshes.split_batch(mesh))
        logits.append((eval_step(variables, batch), mask))
    return np.concatenate([jax.device_get(x)[mask] for x, mask in logits])


def describe_dataset(splits: dict[str, data.Dataset]) -> dict[str, Any]:
    """The content of dataset.json: class names, image shape and sizes of the splits."""
    train = splits["train"]
    return {
        "class_names": list(train.class_names),
        "image_shape": list(train.images.shape[1:]),
        "num_examples": {name: len(split) for name, split in splits.items()},
    }


def describe_scores(
    logits: Float[np.ndarray, "n classes"], dataset: data.Dataset
) -> dict[str, Any]:
    """JSON-ready scores: accuracy, loss, num_examples, per_class, AUC and more.

    "per_class" has, for each class, the mean confidence of its correct and of its wrong
    predictions.
    """
    # What they import takes as long as JAX, and a training needs it at its end.
    from vit_jax.metrics import confusions, roc

    scores = classification.summarize(logits, dataset.labels, dataset.class_names)
    curves = roc.one_vs_rest(logits, dataset.labels)
    right, wrong = calibration.mean_confidence_by_class(logits, dataset.labels)
    for index, row in enumerate(scores["per_class"].values()):
        numbers = {
            "auc": curves[index].auc,
            "confidence_right": right[index],
            "confidence_wrong": wrong[index],
        }
        row |= classification.defined(numbers)
    scores["macro"] |= classification.defined({"auc": roc.macro_auc(curves)})
    return {
        "accuracy": scores.pop("accuracy"),
        "loss": scores.pop("cross_entropy"),
        **scores,
        **confusions.summarize(logits, dataset.labels, dataset.class_names),
    }
