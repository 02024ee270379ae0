"""A trained model, loaded from the folder of a finished or unfinished run."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float, Shaped, UInt8
from ml_collections import ConfigDict

from vit_jax import augment, data, models
from vit_jax.config import read_saved_config
from vit_jax.data import batches
from vit_jax.errors import UserError
from vit_jax.models import backend, memory
from vit_jax.parallel import mesh as meshes
from vit_jax.runs import manifest, model_input
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.user_code import add_code_of_run


@dataclasses.dataclass(frozen=True, repr=False)
class Run:
    """A trained model with everything needed to use it.

    Attributes:
      workdir: the run's folder.
      config: the complete settings.
      model: the linen module; `run.model.apply(run.variables, images, train=False)`
        takes normalised images.
      variables: {"params", "batch_stats"}; the averaged parameters if EMA was on.
      step: number of optimizer steps that led to `variables`.
      class_names: in the order of the labels.
      image_shape: height, width, channels.
      sha256: of the manifest of the checkpoint that was loaded.
      temperature: divides the logits for calibrated probabilities (Guo et al., 2017,
        arXiv:1706.04599, section 4.2). `evaluate --report` fits it to this checkpoint
        on the validation split; before, it is 1.
    """

    workdir: pathlib.Path
    config: ConfigDict
    model: nn.Module
    variables: Any
    step: int
    class_names: tuple[str, ...]
    image_shape: tuple[int, int, int]
    sha256: str = ""
    temperature: float = 1.0

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of `normalize`'s result."""
        return augment.input_shape(self.image_shape, self.config.data.resize)

    def normalize(
        self, images: Shaped[Array | np.ndarray, "*b h w c"]
    ) -> Float[Array, "*b rows columns c"]:
        """The model's input: (images / 255 - mean) / std with the run's statistics,
        resized where config.data.resize is set.

        Raises:
          UserError: the images are not uint8, 0 to 255; `as_images` converts them.
        """
        images = jnp.asarray(images)
        if images.dtype != jnp.uint8:
            raise UserError(
                f"Images to normalise must be uint8 from 0 to 255, but are "
                f"{images.dtype}; run.as_images(images) converts them."
            )
        config_data = self.config.data
        normalized = augment.normalize(
            images, mean=config_data.mean, std=config_data.std
        )
        return augment.resize(normalized, config_data.resize)

    def check_classifier(self) -> None:
        """Checks that the model has classes.

        Raises:
          UserError: it has learned to reconstruct images.
        """
        if self.config.objective != "classification":
            raise UserError(
                f"{self.workdir} holds a run of masked autoencoding, which classifies "
                "nothing; train a classifier from it by --config.pretrained.path="
                f"{self.workdir}, and give that run."
            )

    def as_images(self, images: Any) -> UInt8[np.ndarray | data.Rows, "n h w c"]:
        """Images as the model takes them; see `model_input.as_images`."""
        return model_input.as_images(images, self.image_shape)

    @functools.cached_property
    def _probabilities(self):
        def probabilities(variables, images, temperature):
            logits = self.model.apply(variables, self.normalize(images), train=False)
            return jax.nn.softmax(logits / temperature)

        return backend.jit(probabilities)

    @functools.cached_property
    def _features(self):
        def features(variables, images):
            _, state = self.model.apply(
                variables,
                self.normalize(images),
                train=False,
                mutable=["intermediates"],
            )
            return state.get("intermediates", {}).get("features", (None,))[0]

        return backend.jit(features)

    def _in_batches(self, function: Callable, images: Any) -> np.ndarray:
        images = self.as_images(images)
        num_images = len(images)
        if not num_images:
            images = np.zeros((1, *self.image_shape), np.uint8)
        size = min(self.config.eval_batch_size, len(images))
        parts = [
            np.asarray(function(images[indices]))[mask]
            for indices, mask in batches.eval_batches(len(images), size)
        ]
        return np.concatenate(parts)[:num_images]

    def predict(
        self, images: Any, *, calibrated: bool = False
    ) -> Float[np.ndarray, "n classes"]:
        """Class probabilities; if `calibrated`, of the logits over `temperature`.

        Args:
          images: uint8 [n, height, width, channels], 0 to 255, or what
            `model_input.as_images` makes of others.
          calibrated: whether to divide the logits by the temperature.

        Raises:
          UserError: the images have another shape than those the model was trained on,
            or values whose meaning is not clear; or the model does not classify.
        """
        self.check_classifier()
        temperature = self.temperature if calibrated else 1.0
        return self._in_batches(
            lambda batch: self._probabilities(self.variables, batch, temperature),
            images,
        )

    @property
    def has_features(self) -> bool:
        """Whether the model stores what its classifier sees, for `features`."""
        image = jax.ShapeDtypeStruct((1, *self.image_shape), jnp.uint8)
        return jax.eval_shape(self._features, self.variables, image) is not None

    def features(self, images: Any) -> Float[np.ndarray, "n features"]:
        """What the classifier sees: the pooled output of the last block or stage.

        Args:
          images: see `predict`.

        Raises:
          UserError: as `predict` does; or the model does not store its features.
        """
        self.check_classifier()
        if not self.has_features:
            raise UserError(
                f"The model {self.config.model.name} does not store its features; add "
                'self.sow("intermediates", "features", x) before its classifier.'
            )
        return self._in_batches(
            lambda batch: self._features(self.variables, batch), images
        )

    def __repr__(self) -> str:
        parts = [
            f"{self.config.model.name}, step {self.step:,}",
            f"{models.count_params(self.variables['params']):,} parameters",
            f"images {list(self.image_shape)}",
            f"{len(self.class_names)} classes",
        ]
        if self.temperature != 1:
            parts.append(f"temperature {self.temperature:.3g}")
        return f"<Run {str(self.workdir)!r}: {', '.join(parts)}>"


def selected_checkpoint(config: ConfigDict) -> str:
    """The checkpoint whose scores are the run's: "latest" if nothing was selected."""
    return "latest" if config.data.select_on == "nothing" else "best"


def stored_scores(results: dict[str, Any], step: int) -> dict[str, Any]:
    """The part of results.json that holds one checkpoint's scores, by split.

    The selected checkpoint's scores are at the top level. The returned part is not a
    copy: what is put into it is put into `results`.
    """
    if step == results.get("best_step"):
        return results
    return results.setdefault("other_checkpoints", {}).setdefault(str(step), {})


def _stored_temperature(results: dict[str, Any], step: int) -> float:
    scores = stored_scores(results, step)
    for split in ("test", "val"):
        calibration = (scores.get(split) or {}).get("calibration")
        if calibration and calibration["after"]["temperature"]:
            return float(calibration["after"]["temperature"])
    return 1.0


def _require_complete(
    config: ConfigDict, num_channels: int, file: pathlib.Path
) -> None:
    """Refuses settings that training has not filled in."""
    channels = (config.data.mean, config.data.std)
    if config.model.dtype == "auto" or not all(
        numbers and len(numbers) == num_channels for numbers in channels
    ):
        raise UserError(
            f"{file} is incomplete: it must have config.model.dtype, and "
            "config.data.mean and std for each channel; restore it from a copy."
        )


def _require_memory(
    model: nn.Module, variables: Any, input_shape: tuple[int, int, int]
) -> None:
    """Refuses a model that cannot be loaded, or not score a single image."""
    in_layers = memory.activation_bytes(model, variables, input_shape)
    needs = {
        "parameters": memory.num_bytes(variables),
        # Not all at once: a layer's output is not kept.
        "the layers' outputs for one image": in_layers // 8,
    }
    memory.require_memory(needs, meshes.free_bytes(meshes.make_mesh(1)))


def load_run(workdir: str | os.PathLike, checkpoint: str | int = "best") -> Run:
    """Loads the weights and settings of a finished or unfinished run.

    Args:
      workdir: the run's folder.
      checkpoint: "best" (by validation accuracy; the latest if the config selects on
        nothing), "latest", or a step that was kept, as a number or as text.

    Raises:
      UserError: there is no run, or no such checkpoint, or it is damaged; or the
        file of code that it was trained with is missing, or was never named here.
    """
    folder = RunFolder(workdir)
    config = read_saved_config(folder.read("config"))
    add_code_of_run(config.code)
    if isinstance(checkpoint, str) and checkpoint[:99].isdecimal():
        checkpoint = int(checkpoint[:99])  # any step has fewer digits
    dataset = folder.read_dataset()
    image_shape = tuple(dataset["image_shape"])
    _require_complete(config, image_shape[2], folder.path / "config.json")
    input_shape = augment.input_shape(image_shape, config.data.resize)
    model = models.make_model(
        config.model,
        num_classes=len(dataset["class_names"]),
        image_shape=input_shape,
        dtype=config.model.dtype,
        config_mae=config.mae if config.objective == "masked_autoencoding" else None,
    )
    init = functools.partial(models.init_variables, model, image_shape=input_shape)
    variables = {"batch_stats": {}, **jax.eval_shape(init, jax.random.key(0))}
    _require_memory(model, variables, input_shape)
    # The part of a `TrainState` that evaluation needs, without the optimizer's state.
    averaged = config.optim.ema_decay > 0
    target = {
        "step": jax.ShapeDtypeStruct((), jnp.int32),
        **({"ema": variables} if averaged else variables),
    }
    if checkpoint == "best":
        checkpoint = selected_checkpoint(config)
    with Checkpoints(folder.checkpoints, read_only=True) as checkpoints:
        state, _ = checkpoints.restore(checkpoint, target, partial=True)
    step = int(state.pop("step"))
    digest = manifest.digest(folder.checkpoints / str(step) / "state")
    try:
        temperature = _stored_temperature(folder.read_results(), step)
    except (AttributeError, LookupError, TypeError, ValueError):
        raise UserError(
            f"{folder.path / 'results.json'} is damaged: its scores are no objects "
            "with numbers; restore it from a copy, or remove it."
        ) from None
    return Run(
        workdir=folder.path,
        config=config,
        model=model,
        variables=state["ema"] if averaged else state,
        step=step,
        class_names=tuple(dataset["class_names"]),
        image_shape=image_shape,
        sha256=digest,
        temperature=temperature,
    )


def load_classifier(workdir: str | os.PathLike, checkpoint: str | int = "best") -> Run:
    """`load_run`, which also raises what `Run.check_classifier` does."""
    run = load_run(workdir, checkpoint)
    run.check_classifier()
    return run
