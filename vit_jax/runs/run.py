"""A run's model with everything needed to use it."""

import contextlib
import dataclasses
import functools
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
from vit_jax.data import batches
from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.runs import model_input


def build_model(
    config: ConfigDict, input_shape: tuple[int, int, int], num_classes: int
) -> nn.Module:
    """The model, or the masked autoencoder, that a resolved config describes.

    `input_shape` is that of one image as the model sees it.

    Raises:
      UserError: settings do not fit each other or the image.
    """
    return models.make_model(
        config.model,
        num_classes=num_classes,
        image_shape=input_shape,
        dtype=config.model.dtype,
        config_mae=config.mae if config.objective == "masked_autoencoding" else None,
    )


def fill_model_settings(config: ConfigDict) -> None:
    """Puts the model's own value in place of every None in `config.model`.

    It stays None where a model of the user's own has an attribute that only shares its
    name with a setting, and whose value is no value of the setting.

    Raises:
      UserError: as `models.model_settings` does.
    """
    for name, value in models.model_settings(config.model).items():
        with contextlib.suppress(UserError):
            config[f"model.{name}"] = value


def normalize(
    images: UInt8[Array, "*b h w c"], config_data: ConfigDict
) -> Float[Array, "*b rows columns c"]:
    """The model's input: (images / 255 - mean) / std, resized where a size is set."""
    normalized = augment.normalize(images, mean=config_data.mean, std=config_data.std)
    return augment.resize(normalized, config_data.resize)


def model_features(
    model: nn.Module, variables: Any, inputs: Float[Array, "b rows columns c"]
) -> Float[Array, "b features"] | None:
    """What the classifier sees; None if the model does not store it, or stores another
    array, such as one that is not pooled."""
    _, state = model.apply(variables, inputs, train=False, mutable=["intermediates"])
    features = state.get("intermediates", {}).get("features", (None,))[0]
    return features if getattr(features, "ndim", 0) == 2 else None


@dataclasses.dataclass(frozen=True, repr=False)
class Run:
    """A trained model with everything needed to use it.

    Attributes:
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
        on the images held out, or on the test split where that selects; before, it
        is 1.
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
        """`normalize` with the run's statistics and size.

        Raises:
          UserError: the images are not uint8, 0 to 255; `as_images` converts them.
        """
        images = jnp.asarray(images)
        if images.dtype != jnp.uint8:
            raise UserError(
                f"Images to normalise must be uint8 from 0 to 255, but are "
                f"{images.dtype}; run.as_images(images) converts them."
            )
        return normalize(images, self.config.data)

    def check_classifier(self) -> None:
        """Raises UserError if the model has learned to reconstruct images."""
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
        return backend.jit(
            lambda variables, images: model_features(
                self.model, variables, self.normalize(images)
            )
        )

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

        Of a masked autoencoder it is the output of the encoder, which sees all patches.

        Raises:
          UserError: images that `predict` would refuse; or the model does not store its
            features.
        """
        if not self.has_features:
            raise UserError(
                f"The model {self.config.model.name} does not store its features; add "
                'self.sow("intermediates", "features", x) before its classifier, with '
                "x [batch, width]."
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
