"""Scores and figures of masked autoencoding.

This module takes the place of `scoring` in a run without labels, which has no accuracy.
Its score is the reconstruction loss of a split, with the same hidden patches in every
evaluation.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, UInt8
from ml_collections import ConfigDict

from vit_jax import augment, data
from vit_jax.config import flatten
from vit_jax.errors import UserError
from vit_jax.models import MaskedAutoencoder, mae
from vit_jax.parallel import processes
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.run import normalize
from vit_jax.training import scoring
from vit_jax.training.objectives import reconstruction_losses
from vit_jax.training.train_state import make_root_key

# Number of images in the figure of reconstructions.
_NUM_DRAWN = 6

# The settings that need a classifier or its accuracy, and the values that need neither.
_NEEDED = {
    "augment.label_smoothing": 0.0,
    "data.select_on": "nothing",
    "distill.teacher": "",
    "early_stopping.patience": 0,
    "early_stopping.target": None,
    "linear_probe": False,
    "optim.class_weights": "none",
    "pretrained.head": "fresh",
}


def check_settings(config: ConfigDict) -> None:
    """Raises UserError for a setting that needs a classifier or its accuracy."""
    settings = dict(flatten(config))
    wrong = {key: x for key, x in _NEEDED.items() if settings[key] != x}
    if settings["optim.trainable"] == "head":
        wrong["optim.trainable"] = "all"
    for key, needed in wrong.items():
        value = "''" if needed == "" else needed
        raise UserError(
            f"config.{key} is {settings[key]}, which is for classifiers and their "
            "accuracy, but config.objective=masked_autoencoding has neither; set "
            f"config.{key}={value}."
        )


def make_eval_step(
    config_data: ConfigDict, model: MaskedAutoencoder, mesh: Mesh
) -> Callable[[Any, Any], Any]:
    """(variables, images uint8 [b, h, w, c]) -> the loss of each image; see
    `scoring.jit_on`."""

    def losses(variables, images):
        images, visible = _prepare(images, config_data, model)
        predicted = model.apply(variables, images, visible, train=False)
        return reconstruction_losses(predicted, images, visible, model.patch_size)

    return scoring.jit_on(mesh, losses)


def brief_scores(
    losses: Float[np.ndarray, " n"], labels: Int[np.ndarray, " n"]
) -> dict[str, float | None]:
    """{"accuracy": None, "loss"}; the labels are not used."""
    return {"accuracy": None, "loss": float(losses.mean(dtype=float))}


def describe_scores(
    losses: Float[np.ndarray, " n"], dataset: data.Dataset
) -> dict[str, Any]:
    """JSON-ready scores: accuracy, which is None, loss and num_examples."""
    return brief_scores(losses, dataset.labels) | {"num_examples": len(losses)}


def save_reconstructions(folder: RunFolder, experiment: Any, variables: Any) -> None:
    """Draws `reconstruct` of some test images as figures/reconstructions.png."""
    test = experiment.splits["test"]
    shown = test.select(data.batches.draw_shown(len(test), _NUM_DRAWN))
    drawn = reconstruct(experiment, variables, shown.images)
    if processes.is_primary():
        # Imported late, because Matplotlib takes a second to load.
        from vit_jax.figures import images as figures
        from vit_jax.figures import style

        style.save(
            figures.reconstructions(drawn), folder.figures / "reconstructions.png"
        )


def reconstruct(
    experiment: Any, variables: Any, images: UInt8[np.ndarray, "n h w c"]
) -> UInt8[np.ndarray, "n 3 rows columns c"]:
    """Each image as it is, with its hidden patches grey, and with predictions there.

    A prediction is of a normalised patch; it is shown with the mean and the standard
    deviation of the true one, as He et al. do. Grey is the mean of all images.
    `experiment` is an `experiment.Experiment`, which this module cannot import.
    """
    config_data, model = experiment.config.data, experiment.model
    to_pixels = functools.partial(
        augment.to_pixels, mean=config_data.mean, std=config_data.std
    )

    def draw(variables, images):
        images, visible = _prepare(images, config_data, model)
        predicted = model.apply(variables, images, visible, train=False)
        mean, std = mae.patch_statistics(images, model.patch_size)
        patches = mae.to_patches(images, model.patch_size)
        hidden = mae.hidden_patches(visible, patches.shape[1])
        filled = jnp.where(hidden[..., None], predicted * std + mean, patches)
        filled = mae.from_patches(filled, images.shape[1:], model.patch_size)
        masked = mae.hide_patches(images, hidden, model.patch_size)
        return jnp.stack([to_pixels(x) for x in (images, masked, filled)], axis=1)

    mesh = experiment.mesh
    return scoring.score_split(
        variables,
        images,
        eval_step=scoring.jit_on(mesh, draw),
        batch_size=len(images),
        mesh=mesh,
    )


def _prepare(
    images: UInt8[Array, "b h w c"], config_data: ConfigDict, model: MaskedAutoencoder
) -> tuple[Float[Array, "b rows columns c"], Int[Array, "b visible"]]:
    """The model's input, and visible patches that depend on the image alone.

    So they are the same in every evaluation, whatever the batch size and the order.
    """
    numbers = images.sum(axis=(1, 2, 3), dtype=jnp.uint32)
    keys = jax.vmap(functools.partial(jax.random.fold_in, make_root_key(0)))(numbers)
    images = normalize(images, config_data)
    return images, model.draw_visible(keys, images.shape[1:])
