"""The splits of a run from each source, and the shapes that are known."""

import numpy as np
import pytest
from PIL import Image

from vit_jax import data
from vit_jax.config import default_config, make_config
from vit_jax.data import from_digits
from vit_jax.errors import UserError


def known_shape(**settings):
    config = default_config()
    for key, value in settings.items():
        config[f"data.{key}"] = value
    return data.known_shape(config.data)


def test_known_shapes():
    assert known_shape() == ((32, 32, 3), 10)
    assert known_shape(name="cifar100", source="cifar_files") == ((32, 32, 3), 100)
    assert known_shape(name="cifar100_coarse")[1] == 20
    assert known_shape(image_size=48) == ((48, 48, 3), 10)
    assert known_shape(name="svhn_cropped") is known_shape(source="folder") is None
    digits = from_digits.load()["train"]
    shape, num_classes = known_shape(source="digits")
    assert digits.images.shape[1:] == shape
    assert len(np.unique(digits.labels)) == num_classes


def test_known_shapes_are_those_of_the_files(cifar10_dir):
    config = default_config()
    config["data.source"] = "cifar_files"
    config["data.dir"] = str(cifar10_dir)
    test = data.load(config.data)["test"]
    assert data.known_shape(config.data) == (test.images.shape[1:], test.num_classes)


def make_settings(**changes):
    """The defaults with the built-in digits and `changes`."""
    settings = {"source": "digits", "validation": 200} | changes
    return make_config({"data": settings}).data


@pytest.fixture
def settings():
    return make_settings()


def test_unknown_source(settings):
    settings.source = "digit"
    with pytest.raises(
        UserError, match=r'"digits"\?\).*one of tfds, cifar_files, fold'
    ):
        data.load(settings)


def test_what_a_source_does_not_read_is_no_name():
    """Most configs have the name of CIFAR-10, also where other data are given."""
    for changes, name in (
        ({"source": "digits"}, "digits"),
        ({"source": "folder", "dir": "some/photos"}, "photos"),
        ({"source": "cifar_files"}, "cifar10"),
    ):
        config = make_config({"data": {"name": "cifar10", **changes}})
        assert data.dataset_name(config.data) == name


@pytest.mark.parametrize(
    ("key", "value"), [("dir", "/data"), ("archive", "a.tar.gz"), ("image_size", 32)]
)
def test_settings_that_the_source_does_not_read(settings, key, value):
    settings[key] = value
    with pytest.raises(UserError, match=rf"config.data.{key} is .* digits does not"):
        data.load(settings)


def test_a_folder_of_an_unknown_user(monkeypatch):
    config_data = make_config({"data.source": "folder", "data.dir": "~nobody_here"})
    with pytest.raises(UserError, match="no home folder here"):
        data.dataset_name(config_data.data)


def test_splits_of_different_shapes(tmp_path):
    for split, size in (("train", 8), ("test", 9)):
        for name in "ab":
            folder = tmp_path / split / name
            folder.mkdir(parents=True)
            Image.new("RGB", (size, size)).save(folder / "0.png")
    settings = make_settings(
        source="folder", dir=str(tmp_path), validation=0, select_on="test"
    )
    with pytest.raises(UserError, match=r"test split.*\[9, 9, 3\].*train.*\[8, 8, 3\]"):
        data.load(settings)
    settings.image_size = 4
    assert data.load(settings)["test"].images.shape == (2, 4, 4, 3)


def test_splits_of_other_classes(settings, monkeypatch):
    train = from_digits.load()["train"]
    names = train.class_names[::-1]
    test = data.Dataset(train.images, train.labels, names)
    splits = {"train": train, "test": test}
    monkeypatch.setitem(data.SOURCES, "own", lambda config_data: splits)
    settings.source = "own"
    with pytest.raises(UserError, match=r"The test split has the classes 9, 8, .*same"):
        data.load(settings)
