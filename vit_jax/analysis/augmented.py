"""Images of a dataset as a config augments them in training."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8
from ml_collections import ConfigDict

from vit_jax import augment, data
from vit_jax.config.stages import stage_configs
from vit_jax.figures import style
from vit_jax.training.plan import make_plan
from vit_jax.training.train_state import make_root_key

NUM_VIEWS = 8  # Of each image: one for each of the first passes over the data.


def augmented_views(
    config: ConfigDict, dataset: data.Dataset, indices: np.ndarray
) -> tuple[UInt8[np.ndarray, "n views h w c"], list[list[str]]]:
    """Some images as training sees them in its first passes over the data.

    They are mixed among each other. Beside these views are captions that say what each
    is mixed with, such as "+ 30% dog", or nothing.

    Args:
      dataset: the training split.
      indices: of the images in it.
    """
    config = stage_configs(config)[0]
    mean, std = data.normalization(config.data, dataset)
    config_augment = config.augment.copy_and_resolve_references()
    config_augment.label_smoothing = 0.0
    view = jax.jit(
        augment.make_augment(
            config_augment,
            mean=mean,
            std=std,
            # Each image is a class, so that the targets name the images in a mixture.
            num_classes=len(indices),
            mix_until_step=make_plan(config, len(dataset)).mix_until,
        )
    )
    chosen = dataset.select(indices)
    names = style.short_names(dataset.class_names)
    views, captions = [], [[] for _ in indices]
    for epoch in range(NUM_VIEWS):
        normalized, targets = view(
            make_root_key(epoch),
            jnp.asarray(chosen.images),
            jnp.arange(len(indices), dtype=jnp.int32),
            step=jnp.int32(0),
            epochs=jnp.full(len(indices), epoch, jnp.int32),
            indices=jnp.asarray(indices, jnp.int32),
            run_key=make_root_key(config.seed),
        )
        views.append(np.asarray(augment.to_pixels(normalized, mean, std)))
        for own, fractions in enumerate(np.array(targets)):
            fractions[own] = 0
            partner = fractions.argmax()
            name = names[chosen.labels[partner]]
            is_mixed = fractions[partner] >= 0.005
            caption = f"+ {fractions[partner]:.0%} {name}" if is_mixed else ""
            captions[own].append(caption)
    return np.stack(views, axis=1), captions


def describe_augmentation(config: ConfigDict, num_examples: int) -> str:
    """The augmentations that are on at the start of training, in a line."""
    config = stage_configs(config)[0]
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
