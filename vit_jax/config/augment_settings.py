"""The settings of the augment group; `settings` joins them with all others.

Images are augmented on the device and in training only.
"""

import math

from vit_jax.config.fields import (
    Field,
    choice,
    duration,
    fraction,
    integer,
    number,
    span,
    switch,
    text,
)

AUGMENT_FIELDS: dict[str, Field] = {
    "augment.crop": choice(
        ("pad", "resized", "none"),
        "Random crop after padding, random resized crop, or none.",
    ),
    "augment.crop_padding_pixels": integer(
        4, "Pixels that the pad crop adds on each side.", high=256
    ),
    "augment.crop_padding_mode": choice(
        ("zero", "reflect", "edge"), "Values that the pad crop adds."
    ),
    "augment.crop_min_area": number(
        0.8, "Smallest fraction of the image that a resized crop keeps.", 0.01, 1.0
    ),
    "augment.flip": choice(
        ("random", "alternating", "none"),
        "Horizontal flip with probability 0.5, in every second epoch, or never.",
    ),
    "augment.policy": choice(
        ("none", "randaugment", "trivialaugment", "autoaugment"),
        "Policy that draws further image operations.",
    ),
    "augment.own": text(
        "", "One of the AUGMENTATIONS of config.code, after the policy; '': none."
    ),
    "augment.randaugment_num_ops": integer(
        2, "RandAugment's operations per image.", 1, 100
    ),
    "augment.randaugment_magnitude": integer(
        9, "RandAugment's magnitude, from 0 (weakest) to 30.", high=30
    ),
    "augment.erase_prob": fraction(
        0.0, "Probability that a rectangle of the image is erased."
    ),
    "augment.erase_fill": number(
        0.0, "Value of erased pixels after normalisation.", -math.inf
    ),
    "augment.erase_noise": switch(
        False, "Erased pixels are standard normal noise instead of erase_fill."
    ),
    "augment.erase_area": span(
        (0.02, 0.33), "Smallest and largest erased fraction of the image.", 1.0
    ),
    "augment.erase_ratio": span(
        (0.3, 3.3), "Smallest and largest height of the rectangle divided by its width."
    ),
    "augment.mixup_alpha": number(
        0.0, "Parameter of MixUp's Beta(alpha, alpha) distribution; 0: no MixUp."
    ),
    "augment.cutmix_alpha": number(
        0.0, "Parameter of CutMix's Beta(alpha, alpha) distribution; 0: no CutMix."
    ),
    "augment.mix_prob": fraction(1.0, "Probability that a batch or image is mixed."),
    "augment.mix_switch_prob": fraction(
        0.5, "Probability of CutMix rather than MixUp, where both are on."
    ),
    "augment.mix_per": choice(
        ("batch", "image"), "Mixing is drawn once for the batch or once for each image."
    ),
    "augment.mix_until": duration("100%", "Part of training after which mixing ends."),
    "augment.label_smoothing": fraction(
        0.0,
        "Fraction of each target that is spread evenly over the classes.",
        below_one=True,
    ),
}
