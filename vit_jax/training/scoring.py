"""Every image of a split scored exactly once."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from flax import linen as nn
from jax.sharding import Mesh
from jaxtyping import Float, UInt8

from vit_jax import data
from vit_jax.data import batches
from vit_jax.metrics import calibration, classification, confusions, roc
from vit_jax.models.backend import compiler_options
from vit_jax.parallel import mesh as meshes
from vit_jax.training import steps


def make_eval_step(
    model: nn.Module, normalize: Callable, mesh: Mesh
) -> Callable[[Any, Any], Any]:
    """`steps.eval_step` compiled for a mesh: images in parts, logits everywhere.

    Variables stay as they lie, whole or split.
    """
    step = functools.partial(steps.eval_step, model=model, normalize=normalize)
    whole, parts = meshes.replicated(mesh), meshes.split_batch(mesh)
    return jax.jit(
        step,
        in_shardings=(None, parts),
        out_shardings=whole,
        compiler_options=compiler_options(),
    )


def score_split(
    variables: Any,
    images: UInt8[np.ndarray | data.Rows, "n height width channels"],
    *,
    eval_step: Callable,
    batch_size: int,
    mesh: Mesh,
) -> Float[np.ndarray, "n classes"]:
    """float32 logits of every image, in order.

    The last batch is filled up with copies of the first image, whose logits are thrown
    away: each image counts exactly once, whatever the batch size.
    """
    logits = []
    for indices, mask in batches.eval_batches(len(images), batch_size):
        batch = meshes.put(images[indices], meshes.split_batch(mesh))
        logits.append((eval_step(variables, batch), mask))
    scores = np.concatenate([jax.device_get(x)[mask] for x, mask in logits])
    if len(scores) != len(images):
        raise AssertionError(f"scored {len(scores)} of {len(images)} images")
    return scores


def describe_dataset(splits: dict[str, data.Dataset]) -> dict[str, Any]:
    """The content of dataset.json: what a loaded run has to know of its data."""
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

    Each class has the mean confidence of its right and of its wrong predictions.
    """
    scores = classification.summarize(logits, dataset.labels, dataset.class_names)
    curves = roc.one_vs_rest(logits, dataset.labels)
    right, wrong = calibration.mean_confidence_by_class(logits, dataset.labels)
    for index, row in enumerate(scores["per_class"].values()):
        row["auc"] = _defined(curves[index].auc)
        row["confidence_right"] = _defined(right[index])
        row["confidence_wrong"] = _defined(wrong[index])
    scores["macro"]["auc"] = _defined(roc.macro_auc(curves))
    return {
        "accuracy": scores.pop("accuracy"),
        "loss": scores.pop("cross_entropy"),
        **scores,
        **confusions.summarize(logits, dataset.labels, dataset.class_names),
    }


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
