"""Augmentation of training batches on the device, inside the jitted train step.

make.py         all of it, as the settings describe it; `AUGMENTATIONS`: a user's own
geometry.py, color.py    operations on one image, equal to Pillow's
operations.py, policies.py    RandAugment, TrivialAugment and AutoAugment
erase.py, mix.py    random erasing; MixUp and CutMix
scaling.py      normalisation, its inverse, and resizing

Crop, flip and policy (uint8), then normalisation and erasing (float32) are applied to
each image separately, with a random key of its own; then the batch is mixed. Only
mixing moves data between devices, one image for each of them.

Imports nothing else of `vit_jax` but `errors`.
"""

from vit_jax.augment.make import AUGMENTATIONS, make_augment
from vit_jax.augment.scaling import input_shape, normalize, resize, to_pixels

__all__ = [
    "AUGMENTATIONS",
    "input_shape",
    "make_augment",
    "normalize",
    "resize",
    "to_pixels",
]
