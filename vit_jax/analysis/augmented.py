"""Images of a dataset as a config augments them in training."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8
from ml_collections import ConfigDict

from vit_jax import augment, data
from vit_jax.training.experiment import make_plan


def augmented_views(
    config: ConfigDict,
    dataset: data.Dataset,
    indices: np.ndarray,
    num_views: int = 8,
) -> UInt8[np.ndarray, "n views h w c"]:
    """Views of some images as training sees them at its start, mixed among each other.

    Args:
      config: complete settings.
      dataset: the training split.
      indices: of the images in it.
      num_views: one for each pass over the data, from the first.
    """
    mean, std = data.normalization(config.data, dataset)
    view = jax.jit(
        augment.make_augment(
            config.augment,
            mean=mean,
            std=std,
            num_classes=dataset.num_classes,
            mix_until_step=make_plan(config, len(dataset)).mix_until,
            seed=config.seed,
        )
    )
    chosen = dataset.select(indices)
    views = []
    for epoch in range(num_views):
        normalized, _ = view(
            jax.random.key(epoch),
            jnp.asarray(chosen.images),
            jnp.asarray(chosen.labels),
            step=jnp.int32(0),
            epochs=jnp.full(len(indices), epoch, jnp.int32),
            indices=jnp.asarray(indices, jnp.int32),
        )
        views.append(np.asarray(normalized) * np.float32(std) + np.float32(mean))
    return (255 * np.stack(views, axis=1)).round().clip(0, 255).astype(np.uint8)


def describe_augmentation(config: ConfigDict, num_examples: int) -> str:
    """The augmentations that are on at the start of training, in a line."""
    config_augment = config.augment
    parts = [
        f"{part} {config_augment[part]}"
        for part in ("crop", "flip", "policy")
        if config_augment[part] != "none"
    ]
    if config_augment.own:
        parts.append(config_augment.own)
    if config_augment.erase_prob:
        parts.append("erasing")
    if config_augment.mix_prob and make_plan(config, num_examples).mix_until:
        parts += ["MixUp"] * bool(config_augment.mixup_alpha)
        parts += ["CutMix"] * bool(config_augment.cutmix_alpha)
    return "Augmentation: " + (", ".join(parts) or "none")
