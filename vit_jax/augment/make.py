"""The whole augmentation of a batch, as the settings describe it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import optax
from jaxtyping import Array, Float32, Int32, Key, UInt8

from vit_jax.augment import erase, geometry, mix, policies
from vit_jax.augment.scaling import normalize, resize
from vit_jax.errors import UserError, did_you_mean, user_code_fails, user_line

# A user's own operations by name, (key, image uint8 [h, w, c]) -> image; config.code
# fills it.
AUGMENTATIONS: dict[str, Callable] = {}


def _unchanged(key, image, **_):
    return image


def _make_image_operations(config: Any) -> tuple[Callable, ...]:
    """(crop, flip, policy, erasing), each (key, image, ...) -> image."""
    crop = {
        "pad": partial(
            geometry.random_crop,
            padding_pixels=config.crop_padding_pixels,
            padding_mode=config.crop_padding_mode,
        ),
        "resized": partial(geometry.random_resized_crop, min_area=config.crop_min_area),
        "none": _unchanged,
    }[config.crop]
    flip = {
        "random": lambda key, image, **_: geometry.random_flip(key, image),
        "alternating": lambda key, image, **seen: geometry.alternating_flip(
            image, **seen
        ),
        "none": _unchanged,
    }[config.flip]
    policy = {
        "randaugment": partial(
            policies.randaugment,
            num_ops=config.randaugment_num_ops,
            magnitude=config.randaugment_magnitude,
        ),
        "trivialaugment": policies.trivialaugment,
        "autoaugment": policies.autoaugment,
        "none": _unchanged,
    }[config.policy]
    if config.own:
        policy = _followed_by(policy, config.own)
    erasing = _unchanged
    if config.erase_prob:
        erasing = partial(
            erase.random_erase,
            prob=config.erase_prob,
            fill="noise" if config.erase_noise else config.erase_fill,
            area=config.erase_area,
            ratio=config.erase_ratio,
        )
    return crop, flip, policy, erasing


_NOT_TRACED = (
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def _followed_by(policy: Callable, name: str) -> Callable:
    if name not in AUGMENTATIONS:
        raise UserError(
            f'There is no augmentation "{name}"{did_you_mean(name, AUGMENTATIONS)}; '
            "config.augment.own must be one of the AUGMENTATIONS of the file that "
            f"config.code names ({', '.join(AUGMENTATIONS) or 'none are known'})."
        )

    def both(key, image):
        image = policy(key, image)
        try:
            result = AUGMENTATIONS[name](jax.random.fold_in(key, 1), image)
        except jax.errors.ConcretizationTypeError as error:
            raise UserError(
                f'The augmentation "{name}" decides in Python by a value that is known '
                "only when the compiled program runs; use jnp.where or jax.lax.cond in "
                f"place of if, and take sizes from image.shape ({user_line(error)})."
            ) from error
        except _NOT_TRACED as error:
            raise UserError(
                f'The augmentation "{name}" hands a value that is known only when the '
                "compiled program runs to NumPy, a list or range; use jax.numpy, "
                "jnp.array(...)[i] and jax.lax.fori_loop in their place "
                f"({user_line(error)})."
            ) from error
        except Exception as error:
            raise user_code_fails(f'The augmentation "{name}"', error) from error
        found = getattr(result, "shape", None), getattr(result, "dtype", None)
        if found != (image.shape, image.dtype):
            what = f"{found[1]}{list(found[0])}" if found[1] else type(result).__name__
            raise UserError(
                f'The augmentation "{name}" returned {what}, but must return an image '
                f"like the one that it gets, {image.dtype}{list(image.shape)} with "
                "values from 0 to 255; round and convert it with jnp.rint(image)"
                ".astype(jnp.uint8)."
            )
        return result

    return both


def make_augment(
    config: Any,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    num_classes: int,
    mix_until_step: int,
    side: int | None = None,
) -> Callable[..., tuple[Array, Array]]:
    """The augmentation that `config.augment` describes, a pure function.

    Args:
      config: the `augment` group of the settings, except `mix_until`.
      mean, std: of each channel, 0..1.
      num_classes: number of columns of the targets.
      mix_until_step: the first step without MixUp and CutMix.
      side: in pixels, to which the augmented images are resized; None: no resize.

    Returns:
      augment(key, images, labels, *, step, epochs, indices, run_key) -> (images,
      targets) of a batch. The images given are uint8, 0..255, and those returned are
      normalised float32; each image has a row of targets that sums to 1. `step` is the
      number of optimizer steps done, `epochs` the number of the pass over the training
      split for each image, `indices` its index there and `run_key` a key that is
      constant during a run; the last three are used by alternating flips only.
    """
    crop, flip, policy, erasing = _make_image_operations(config)
    smoothing, mixing = config.label_smoothing, None
    if config.mix_prob and (config.mixup_alpha or config.cutmix_alpha):
        mixing = partial(
            mix.random_mix,
            per=config.mix_per,
            mixup_alpha=config.mixup_alpha,
            cutmix_alpha=config.cutmix_alpha,
            prob=config.mix_prob,
            switch_prob=config.mix_switch_prob,
        )

    def augment_image(key, image, epoch, index, run_key):
        crop_key, flip_key, policy_key, erase_key = jax.random.split(key, 4)
        image = crop(crop_key, image)
        image = flip(flip_key, image, epoch=epoch, index=index, run_key=run_key)
        image = policy(policy_key, image)
        return erasing(erase_key, normalize(image, mean, std))

    def augment(
        key: Key[Array, ""],
        images: UInt8[Array, "b h w c"],
        labels: Int32[Array, " b"],
        *,
        step: Int32[Array, ""],
        epochs: Int32[Array, " b"],
        indices: Int32[Array, " b"],
        run_key: Key[Array, ""],
    ) -> tuple[Float32[Array, "b rows columns c"], Float32[Array, "b k"]]:
        image_key, mix_key = jax.random.split(key)
        keys = jax.random.split(image_key, len(images))
        images = jax.vmap(augment_image, in_axes=(0, 0, 0, 0, None))(
            keys, images, epochs, indices, run_key
        )
        targets = optax.smooth_labels(jax.nn.one_hot(labels, num_classes), smoothing)
        if mixing is not None:
            active = step < mix_until_step
            images, targets = mixing(mix_key, images, targets, active=active)
        return resize(images, side), targets

    return augment
