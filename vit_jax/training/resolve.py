"""Fills in what a config leaves open, and refuses settings that do not fit.

The data, the model and the machine decide what is open.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vit_jax import data, models
from vit_jax.config import describe_fields
from vit_jax.config.settings import MAX_SIDE
from vit_jax.config.values import reset_steps
from vit_jax.errors import UserError, show
from vit_jax.models import backend
from vit_jax.runs.run import fill_model_settings, model_features
from vit_jax.runs.user_code import absolute_code, add_user_code, digest
from vit_jax.training import masked, trainable


def resolve_config(config: ConfigDict, train: data.Dataset) -> ConfigDict:
    """A copy in which every value that depends on machine, model or data is explicit.

    Another machine, or a later version with other defaults, reads it the same way. What
    a linear probe does not read has its default, since it could be refused.
    """
    config = config.copy_and_resolve_references()
    if config.linear_probe:
        reset_steps(config)
    fill_model_settings(config)
    if config.model.dtype == "auto":
        config["model.dtype"] = backend.auto_dtype()
    config["data.name"] = data.dataset_name(config.data)
    config["code"] = absolute_code(config.code)
    found = digest(config.code)
    if config.code_sha256 not in ("", found):
        raise UserError(
            f"config.code_sha256 is {config.code_sha256}, but the file of config.code="
            f"{show(config.code)} has {found or 'none'}; give the file as it was, or "
            "leave out config.code_sha256."
        )
    config["code_sha256"] = found
    config.data.mean, config.data.std = data.normalization(config.data, train)
    return config


def check_probe(
    model: nn.Module, variables: Any, input_shape: tuple[int, int, int]
) -> None:
    """Refuses a linear probe of a model that has no features or no head.

    `variables` may be shapes.
    """
    images = jax.ShapeDtypeStruct((1, *input_shape), jnp.float32)
    features = jax.eval_shape(
        lambda *inputs: model_features(model, *inputs), variables, images
    )
    params = variables["params"]
    head = params.get("head", {})
    fits = features is not None and "distillation_head" not in params
    fits = fits and isinstance(head, Mapping) and {"kernel", "bias"} == head.keys()
    if not fits or head["kernel"].shape != (features.shape[-1], head["bias"].size):
        raise UserError(
            f"config.linear_probe is True, but the model {type(model).__name__} stores "
            "no features or has no layer called head that alone computes the logits "
            "from them, with a kernel and a bias; add them, as docs/adding_a_model.md "
            "says, or set it to False."
        )


def describe_settings(config: ConfigDict) -> str:
    """All settings of a config as text, with the model's own value in place of None.

    Raises:
      UserError: the model or one of its settings is unknown.
    """
    add_user_code(config.code)
    config = config.copy_and_resolve_references()
    fill_model_settings(config)
    return describe_fields(config)


def num_microbatches(
    config: ConfigDict, model: nn.Module, image_shape: tuple[int, int, int]
) -> int:
    """The setting; where that is 1, the number with which this machine is fastest.

    With BatchNorm 1 stays 1, because each part would be normalised by itself. The
    number is not written into the config: a run may continue on another machine, with
    another number.
    """
    asked = config.optim.num_microbatches
    has_batch_norm = not isinstance(model, models.ViT) or model.stem_norm == "batch"
    if asked > 1 or has_batch_norm:
        return asked
    macs = models.count_macs(model, image_shape)
    return backend.num_microbatches(config.batch_size, macs)


def class_weights(config: ConfigDict, train: data.Dataset) -> tuple[float, ...] | None:
    """n / (k n_c) of each of k classes with n_c of n images; None: all count alike.

    Their mean over the images is 1, so that the learning rate keeps its meaning.
    """
    if config.optim.class_weights == "none":
        return None
    counts = np.maximum(train.count_classes(), 1)
    return tuple((len(train) / (len(counts) * counts)).tolist())


def trained_names(config: ConfigDict, params: Any) -> frozenset[str] | None:
    """The names of the parameters that a stage trains; None for all of them.

    Args:
      config: of the stage.
      params: of the model; arrays, or their shapes.

    Raises:
      UserError: config.optim.trainable names none, or there are no layers to decay the
        learning rate by.
    """
    asked = config.optim
    if asked.trainable == "all" and asked.layer_decay == 1:
        return None
    names = trainable.trainable_names(params, "all")
    if asked.layer_decay != 1 and not trainable.num_blocks(names):
        raise UserError(
            f"config.optim.layer_decay is {asked.layer_decay:g}, but "
            f"{config.model.name} has no blocks to decay the learning rate by; set it "
            "to 1, or take a ViT."
        )
    trained = trainable.trainable_names(params, asked.trainable)
    return None if trained == names else trained


def check_settings(
    config: ConfigDict, splits: dict[str, data.Dataset], mesh: Mesh
) -> None:
    """Refuses settings of a stage that do not fit devices, data or each other."""
    num_parts = mesh.size * config.optim.num_microbatches
    if config.batch_size % num_parts:
        below = config.batch_size // num_parts * num_parts
        near = [str(size) for size in (below, below + num_parts) if size]
        raise UserError(
            f"config.batch_size is {config.batch_size}, but must be a multiple of "
            f"{num_parts} (devices of all processes times microbatches); use "
            f"{' or '.join(near)}."
        )
    names = splits["train"].class_names
    if len(names) < 2 and config.objective == "classification":
        raise UserError(
            f"The data have only the class {show(names[0])}, but a classifier needs "
            "two; in a folder of photos there is one folder for each class."
        )
    height, width, _ = splits["train"].images.shape[1:]
    if max(height, width) > MAX_SIDE:
        raise UserError(
            f"The images have {height}x{width} pixels, but sides of at most {MAX_SIDE} "
            "are taken; set config.data.image_size."
        )
    needs_evaluations = {
        "config.schedule.name=plateau": config.schedule.name == "plateau",
        "config.early_stopping.patience": config.early_stopping.patience,
        "config.early_stopping.target": config.early_stopping.target is not None,
    }
    for key, is_asked in needs_evaluations.items():
        if is_asked and "val" not in splits:
            raise UserError(
                f"{key} needs evaluations during training, but config.data.validation "
                "is 0, so that no images are held out; hold some out or switch it off."
            )
    if config.objective == "masked_autoencoding":
        masked.check_settings(config)
    if config.time_budget and not config.num_steps:
        raise UserError(
            f"config.time_budget is {show(config.time_budget)}, which only the start "
            "of a training converts to a number of steps; set config.num_steps here."
        )
