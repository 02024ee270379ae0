"""The settings of the augmentation."""

from vit_jax.config.augment_settings import AUGMENT_FIELDS
from vit_jax.config.settings import FIELDS


def test_all_are_settings_of_the_augment_group():
    group = {key for key in FIELDS if key.startswith("augment.")}
    assert group == AUGMENT_FIELDS.keys()


def test_by_default_images_are_only_cropped_and_flipped():
    defaults = {k.split(".")[1]: field.default for k, field in AUGMENT_FIELDS.items()}
    assert (defaults["crop"], defaults["flip"], defaults["policy"]) == (
        "pad", "random", "none",
    )  # fmt: skip
    off = ("erase_prob", "mixup_alpha", "cutmix_alpha", "label_smoothing")
    assert {defaults[name] for name in off} == {0}
