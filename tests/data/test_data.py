"""What the room of the data offers: sources, known shapes and normalization."""

import numpy as np

from vit_jax import data
from vit_jax.config import default_config, set_value


def known_shape(**settings):
    config = default_config()
    for key, value in settings.items():
        set_value(config, f"data.{key}", value)
    return data.known_shape(config.data)


def test_known_shapes():
    assert known_shape() == ((32, 32, 3), 10)
    assert known_shape(name="cifar100", source="cifar_files") == ((32, 32, 3), 100)
    assert known_shape(name="cifar100_coarse")[1] == 20
    assert known_shape(image_size=48) == ((48, 48, 3), 10)
    assert known_shape(name="svhn_cropped") is known_shape(source="folder") is None
    digits = data.from_digits.load()["train"]
    shape, num_classes = known_shape(source="digits")
    assert digits.images.shape[1:] == shape
    assert len(np.unique(digits.labels)) == num_classes


def test_known_shapes_are_those_of_the_files(cifar10_dir):
    config = default_config()
    set_value(config, "data.source", "cifar_files")
    set_value(config, "data.dir", str(cifar10_dir))
    test = data.load(config.data)["test"]
    assert data.known_shape(config.data) == (test.images.shape[1:], test.num_classes)
