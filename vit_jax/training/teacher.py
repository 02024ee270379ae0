"""The teacher: a trained model from which another one learns."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from vit_jax import augment
from vit_jax.config import default_config
from vit_jax.config.values import require_switched_on
from vit_jax.data import Dataset
from vit_jax.errors import UserError, shorten
from vit_jax.parallel import processes
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_classifier
from vit_jax.runs.run import Run
from vit_jax.runs.user_code import own_tables


def load_teacher(config_distill: ConfigDict) -> Run | None:
    """The run that `config.distill` names, or None where it names none.

    Of several processes, all have to call this. The variables are NumPy arrays, so that
    those that an experiment puts on the devices are the only ones there.

    Raises:
      UserError: the folder is no run, or has no such checkpoint, or its model does not
        classify.
    """
    path, step = config_distill.teacher, config_distill.step
    if not path:
        return None
    try:
        # The processes have to agree before they read the checkpoint together.
        processes.run_on_all(lambda: RunFolder(path).read("config"))
        with own_tables():
            run = load_classifier(path, "best" if step is None else step)
    except UserError as error:
        raise UserError(
            f"config.distill.teacher cannot be loaded: {error} If the teacher was "
            "moved, give its new folder."
        ) from error
    return dataclasses.replace(run, variables=jax.device_get(run.variables))


def require_teacher(config: ConfigDict) -> None:
    """Raises UserError for settings of a teacher that would have no effect, or with
    which one of two heads would learn nothing."""
    require_switched_on(config, "distill.teacher", "the folder of the teacher's run")
    config_distill = config.distill
    own, usual = config_distill.temperature, default_config().distill.temperature
    has_two_heads = config.model.distillation_token
    if config_distill.teacher and has_two_heads and config_distill.alpha in (0, 1):
        raise UserError(
            f"config.distill.alpha is {config_distill.alpha:g}, with which one of the "
            "two heads of config.model.distillation_token=True would learn nothing, "
            "and the model averages both; give a value between 0 and 1, or set "
            "config.model.distillation_token to False."
        )
    if config_distill.teacher and config_distill.kind == "hard" and own != usual:
        raise UserError(
            f"config.distill.temperature is {own:g}, which has an effect only with "
            "config.distill.kind=soft; set that, or leave the temperature out."
        )


def pin_teacher(config: ConfigDict, teacher: Run | None, train: Dataset) -> ConfigDict:
    """`config` with step and SHA-256 of the teacher, which is checked.

    A run that is resumed then refuses another teacher as it does any other setting.

    Raises:
      UserError: the teacher has other classes or images, or is another checkpoint than
        `config.distill.sha256` names.
    """
    if teacher is None:
        return config
    path = config.distill.teacher
    if teacher.class_names != tuple(train.class_names):
        raise UserError(
            f"The teacher in {path} knows the classes "
            f"{shorten(teacher.class_names, 10)}, but the data have "
            f"{shorten(train.class_names, 10)}; a teacher must have the same classes "
            "in the same order, so give another config.distill.teacher."
        )
    image_shape = augment.input_shape(train.images.shape[1:], config.data.resize)
    if teacher.input_shape != image_shape:
        raise UserError(
            f"The teacher in {path} takes images of shape {teacher.input_shape}, but "
            f"those to learn have {image_shape} (height, width, channels); give a "
            "config.distill.teacher that was trained on such images."
        )
    if config.distill.sha256 not in ("", teacher.sha256):
        raise UserError(
            f"The teacher in {path} has the SHA-256 {teacher.sha256} at step "
            f"{teacher.step}, but config.distill.sha256 is {config.distill.sha256}; "
            "give the run and the config.distill.step with that checkpoint."
        )
    config = config.copy_and_resolve_references()
    config["distill.step"] = teacher.step
    config["distill.sha256"] = teacher.sha256
    return config


def logits_of(teacher: Run, config_data: ConfigDict) -> Callable[[Any, Any], Any]:
    """(variables, images) -> the teacher's float32 logits, in evaluation mode.

    The images are normalised by `config_data`, for the model that learns.
    """
    mean, std = (np.float32(config_data[name]) for name in ("mean", "std"))
    own_mean, own_std = (np.float32(teacher.config.data[x]) for x in ("mean", "std"))
    scale, offset = std / own_std, (mean - own_mean) / own_std

    def teacher_logits(variables, images):
        images = images * scale[None, None, None] + offset[None, None, None]
        logits = teacher.model.apply(variables, images, train=False)
        return logits.astype(jnp.float32)

    return teacher_logits
