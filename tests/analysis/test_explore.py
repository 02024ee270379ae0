"""Exploration of a config's data."""

import numpy as np
import pytest

from tests.rows import slow
from vit_jax.analysis import explore
from vit_jax.config import make_config
from vit_jax.data import Dataset
from vit_jax.errors import UserError
from vit_jax.metrics.distances import class_distances
from vit_jax.runs.load import load_run

RNG = np.random.default_rng(0)


def make_dataset(images, num_classes=2):
    labels = np.arange(len(images), dtype=np.int32) % num_classes
    return Dataset(images, labels, tuple(f"class {i}" for i in range(num_classes)))


def test_samples_are_of_their_classes():
    images = np.arange(40, dtype=np.uint8)[:, None, None, None].repeat(3, axis=3)
    dataset = Dataset(images, np.array([0, 2] * 20, np.int32), ("even", "empty", "odd"))
    samples, names, which = explore.class_samples(dataset, RNG)
    assert which == "each class"
    assert names == ["even", "odd"] and samples.shape == (2, 10, 1, 1, 3)
    assert (samples[0] % 2 == 0).all() and (samples[1] % 2 == 1).all()
    assert len(np.unique(samples)) == 20
    # No more than the smallest class has.
    few = dataset.select(np.arange(7))
    assert explore.class_samples(few, RNG)[0].shape[:2] == (2, 3)


@pytest.mark.parametrize(
    "num_classes, which",
    [slow(20, "each class"), (21, "each of the first 20 of 21 classes")],
)
def test_titles_say_which_classes_are_shown(num_classes, which):
    images = RNG.integers(256, size=(2 * num_classes, 8, 8, 3), dtype=np.uint8)
    dataset = make_dataset(images, num_classes)
    config = make_config({"data.source": "digits", "model.name": "vit_128x6_post_norm"})
    _, figures = explore.draw_data(config, {"train": dataset, "test": dataset}, RNG)
    titles = {name: figure.get_suptitle() for name, figure in figures.items()}
    assert titles["class_samples"] == f"Samples of {which}"
    assert titles["class_patches"].startswith(f"One image of {which} as ")
    assert len(figures["class_patches"].axes) == 20
    first = "the first 20 of 21 classes"
    assert (first in titles["class_counts"]) == (num_classes == 21)
    assert len(figures["class_counts"].axes[0].get_xticks()) == 20


def test_duplicates_are_counted_across_splits():
    train = RNG.integers(256, size=(30, 16, 16, 3), dtype=np.uint8)
    test = RNG.integers(256, size=(10, 16, 16, 3), dtype=np.uint8)
    test[2] = train[5]
    test[3] = np.clip(train[6].astype(int) + 3, 0, 255)
    splits = {"train": make_dataset(train), "test": make_dataset(test)}
    counts, figures = explore.compare_splits(splits)
    assert counts == {"test in train": {"exact": 1, "near": 1}}
    assert list(figures) == ["duplicates_test_train"]


@pytest.mark.slow
def test_distances_are_measured_in_the_plane_that_is_drawn():
    # The two classes lie far apart, and t-SNE moves them closer to each other.
    values = (
        RNG.integers(20, size=(24, 4, 4, 3))
        + np.repeat([0, 200], 12)[:, None, None, None]
    )
    labels = np.repeat(np.array([0, 1], np.int32), 12)
    dataset = Dataset(values.astype(np.uint8), labels, ("dark", "light"))
    summary, figure = explore.draw_spaces(dataset, None)
    (axes,) = figure.axes[:1]
    plane = np.concatenate([dots.get_offsets() for dots in axes.collections])
    expected = class_distances(plane, labels)
    assert summary["t-SNE plane of raw pixels"] == pytest.approx(expected)
    pixels = class_distances(values.reshape(24, -1) / 255, labels)
    assert summary["raw pixels"]["ratio"] == pytest.approx(pixels["ratio"], rel=1e-5)
    own, drawn = axes.get_title().splitlines()
    assert own.endswith(f"= {pixels['ratio']:.2f}")
    assert drawn.endswith(f"= {expected['ratio']:.2f}")


def test_patches_of_every_class_have_the_models_size():
    model = {"name": "vit_128x6_post_norm", "patch_size": 2}
    config = make_config({"data": {"source": "digits"}, "model": model})
    dataset = make_dataset(RNG.integers(256, size=(12, 8, 8, 3), dtype=np.uint8), 3)
    splits = {"train": dataset, "test": dataset}
    _, figures = explore.draw_data(config, splits, RNG)
    figure = figures["class_patches"]
    assert [axes.get_title() for axes in figure.axes] == list(dataset.class_names)
    assert "patches of 2 × 2 pixels" in figure.get_suptitle()
    config.model.name = "resnet18"
    config.model.patch_size = None
    _, figures = explore.draw_data(config, splits, RNG)
    assert not {"patches", "class_patches"} & figures.keys()


def test_a_run_on_other_images_is_refused(tiny_run):
    dataset = make_dataset(np.zeros((12, 4, 4, 3), np.uint8))
    with pytest.raises(UserError, match=r"\[12, 4, 4, 3\].*\[n, 8, 8, 1\]"):
        explore.draw_spaces(dataset, load_run(tiny_run[0]))


def test_patches_are_those_of_the_resized_image():
    dataset = make_dataset(RNG.integers(0, 256, (40, 8, 8, 1), np.uint8))
    splits = {"train": dataset, "test": dataset}
    settings = {"model.name": "vit", "model.patch_size": 16, "data.resize": 32}
    _, figures = explore.draw_data(make_config(settings), splits, RNG)
    title = "2 × 2 = 4 patches of 16 × 16 pixels"
    assert figures["patches"].get_suptitle() == title
    assert figures["class_patches"].get_suptitle().endswith(title)
