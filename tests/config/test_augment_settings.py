"""The settings of the augmentation."""

import pytest

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


@pytest.mark.parametrize(
    "name, good, bad",
    [
        ("crop_min_area", 0.01, 0.0),
        ("randaugment_num_ops", 1, 0),
        ("randaugment_magnitude", 30, 31),
        ("erase_fill", -2.5, float("inf")),
        ("erase_area", (0.1, 1.0), (0.1, 1.1)),
        ("erase_ratio", (0.1, 9.0), (9.0, 0.1)),
        ("mixup_alpha", 4.0, -1.0),
        ("label_smoothing", 0.0, 1.0),
    ],
)
def test_ranges(name, good, bad):
    field = AUGMENT_FIELDS[f"augment.{name}"]
    assert field.convert(good) == good
    with pytest.raises(ValueError):
        field.convert(bad)
