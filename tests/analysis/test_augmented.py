"""Images as training sees them."""

import numpy as np

from vit_jax.analysis.augmented import (
    NUM_VIEWS,
    augmented_views,
    describe_augmentation,
)
from vit_jax.data import Dataset

RNG = np.random.default_rng(0)


def test_augmented_views_without_augmentation_are_the_images(tiny_config):
    config = tiny_config(augment__crop="none")
    images = RNG.integers(256, size=(20, 8, 8, 3), dtype=np.uint8)
    dataset = Dataset(images, np.arange(20, dtype=np.int32) % 2, ("a", "b"))
    indices = np.array([4, 7, 1])
    views, captions = augmented_views(config, dataset, indices)
    assert captions == [[""] * NUM_VIEWS] * 3
    for view in range(NUM_VIEWS):
        np.testing.assert_array_equal(views[:, view], dataset.images[indices])
    config["augment.mixup_alpha"] = 1.0
    mixed, captions = augmented_views(config, dataset, indices)
    assert (mixed != views).mean() > 0.5
    # The partner's fraction is right to the pixel; it is one of the two others.
    fraction = int(captions[0][0].split()[1].rstrip("%")) / 100
    both = [(1 - fraction) * views[0, 0] + fraction * views[p, 0] for p in (1, 2)]
    assert min(np.abs(mixed[0, 0] - one).max() for one in both) < 3
    assert describe_augmentation(config, 20) == "Augmentation: MixUp"
    config["augment.mix_until"] = "0%"
    assert describe_augmentation(config, 20) == "Augmentation: none"
