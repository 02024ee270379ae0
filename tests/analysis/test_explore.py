"""Exploration of a config's data."""

import json

import numpy as np
import pytest
from PIL import Image

from vit_jax.analysis import explore
from vit_jax.analysis.augmented import augmented_views, describe_augmentation
from vit_jax.config import make_config, set_value
from vit_jax.data import Dataset
from vit_jax.errors import UserError
from vit_jax.explore import main
from vit_jax.interpret.features import embed
from vit_jax.metrics.distances import class_distances
from vit_jax.runs.load import load_run
from vit_jax.training.train import train_and_evaluate

RNG = np.random.default_rng(0)


def make_dataset(images, num_classes=2):
    labels = np.arange(len(images), dtype=np.int32) % num_classes
    return Dataset(images, labels, tuple(f"class {i}" for i in range(num_classes)))


def test_samples_are_of_their_classes():
    images = np.arange(40, dtype=np.uint8)[:, None, None, None].repeat(3, axis=3)
    dataset = Dataset(images, np.array([0, 2] * 20, np.int32), ("even", "empty", "odd"))
    samples, names = explore.class_samples(dataset, RNG, num_samples=5)
    assert names == ["even", "odd"] and samples.shape == (2, 5, 1, 1, 3)
    assert (samples[0] % 2 == 0).all() and (samples[1] % 2 == 1).all()
    assert len(np.unique(samples)) == 10
    assert explore.class_samples(dataset, RNG, 99)[0].shape[1] == 20


def test_augmented_views_without_augmentation_are_the_images(tiny_config):
    config = tiny_config(augment__crop="none")
    dataset = make_dataset(RNG.integers(256, size=(20, 8, 8, 3), dtype=np.uint8))
    indices = np.array([4, 7, 1])
    views, captions = augmented_views(config, dataset, indices, num_views=2)
    assert captions == [["", ""]] * 3
    for view in range(2):
        np.testing.assert_array_equal(views[:, view], dataset.images[indices])
    set_value(config, "augment.mixup_alpha", 1.0)
    mixed, captions = augmented_views(config, dataset, indices, num_views=2)
    assert (mixed != views).mean() > 0.5
    # The partner's share is right to the pixel; it is one of the two others.
    share = int(captions[0][0].split()[1].rstrip("%")) / 100
    both = [(1 - share) * views[0, 0] + share * views[p, 0] for p in (1, 2)]
    assert min(np.abs(mixed[0, 0] - one).max() for one in both) < 3
    assert describe_augmentation(config, 20) == "Augmentation: MixUp"
    set_value(config, "augment.mix_until", "0%")
    assert describe_augmentation(config, 20) == "Augmentation: none"


def test_duplicates_are_counted_across_splits():
    train = RNG.integers(256, size=(30, 16, 16, 3), dtype=np.uint8)
    test = RNG.integers(256, size=(10, 16, 16, 3), dtype=np.uint8)
    test[2] = train[5]
    test[3] = np.clip(train[6].astype(int) + 3, 0, 255)
    splits = {"train": make_dataset(train), "test": make_dataset(test)}
    splits["val"] = splits["test"]
    counts, figures = explore.compare_splits(splits)
    assert counts == {"test in train": {"exact": 1, "near": 1}}
    assert list(figures) == ["duplicates_test_train"]


@pytest.mark.slow
def test_embedding_keeps_far_groups_apart_and_is_repeatable():
    groups = np.concatenate([RNG.normal(size=(12, 5)), RNG.normal(100, size=(12, 5))])
    places = embed(groups.astype(np.float32))
    np.testing.assert_array_equal(places, embed(groups.astype(np.float32)))
    centers = places[:12].mean(axis=0), places[12:].mean(axis=0)
    for place, own in zip(places, [0] * 12 + [1] * 12, strict=True):
        gaps = [np.linalg.norm(place - center) for center in centers]
        assert np.argmin(gaps) == own


@pytest.mark.slow
def test_the_command_draws_and_prints(tiny_run, tmp_path, capsys):
    out = tmp_path / "deep" / "out"
    main([f"--out={out}", f"--run={tiny_run[0]}", "--tsne_images=30"])
    printed = capsys.readouterr().out
    summary = json.loads((out / "summary.json").read_text())
    assert summary["image_shape"] == [8, 8, 1]
    assert sum(summary["class_counts"]["train"]) == 1338
    np.testing.assert_allclose(summary["config_mean"], summary["train_mean"], rtol=1e-6)
    spaces = {"raw pixels", "features"}
    planes = {f"t-SNE plane of {name}" for name in spaces}
    assert set(summary["distances"]) == spaces | planes
    assert summary["distances"]["raw pixels"]["num_examples"] == 30
    assert "test in train" in summary["duplicates"]
    assert "distance in features" in printed
    assert (
        "distance in t-SNE plane of raw pixels" in printed
        and "train: 1,338 images" in printed
    )
    names = {path.stem for path in out.glob("*.png")}
    assert names >= {
        "augmentation",
        "channel_histograms",
        "class_counts",
        "class_patches",
        "class_samples",
        "patches",
        "tsne",
    }


def test_distances_are_measured_in_the_plane_that_is_drawn():
    # Two classes far apart in two far groups each: the plane brings groups nearer.
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
    found = summary["t-SNE plane of raw pixels"]
    assert found["within"] == pytest.approx(expected.within)
    assert found["between"] == pytest.approx(expected.between)
    assert found["ratio"] == pytest.approx(expected.ratio)
    pixels = class_distances(values.reshape(24, -1) / 255, labels)
    assert summary["raw pixels"]["ratio"] == pytest.approx(pixels.ratio, rel=1e-5)
    own, drawn = axes.get_title().splitlines()
    assert own.endswith(f"= {pixels.ratio:.2f}")
    assert drawn.endswith(f"= {expected.ratio:.2f}")


@pytest.mark.parametrize(
    "model, pixels",
    [({"name": "vit_128x6_post_norm", "patch_size": 2}, 2), ({"name": "resnet18"}, 4)],
)
def test_patches_of_every_class_have_the_models_size(model, pixels):
    config = make_config({"data": {"source": "digits"}, "model": model})
    dataset = make_dataset(RNG.integers(256, size=(12, 8, 8, 3), dtype=np.uint8), 3)
    splits = {"train": dataset, "test": dataset}
    _, figures = explore.draw_data(config, splits, RNG)
    figure = figures["class_patches"]
    assert [axes.get_title() for axes in figure.axes] == list(dataset.class_names)
    assert f"patches of {pixels} × {pixels} pixels" in figure.get_suptitle()


def test_mistakes_are_one_sentence(tmp_path, tiny_run):
    start = ["--config=configs/vit_digits.py", f"--out={tmp_path / 'o'}"]
    with pytest.raises(UserError, match="10 or more"):
        main([*start, "--tsne_images=3"])
    with pytest.raises(UserError, match='"--tsne_images"'):
        main([*start, "--tsne_image=30"])
    with pytest.raises(UserError, match="cannot be written to"):
        (tmp_path / "file").write_text("")
        main([start[0], f"--out={tmp_path / 'file' / 'o'}"])


def test_a_run_brings_all_its_settings(tmp_path):
    """Its data folder, patch size and statistics, and nothing is downloaded."""
    folder = tmp_path / "photos"
    for split, count in (("train", 6), ("test", 4)):
        for name in ("cat", "dog"):
            (folder / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = RNG.integers(256, size=(8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / name / f"{i}.png")
    config = {
        "num_steps": 1,
        "batch_size": 4,
        "num_devices": 1,
        "data": {
            "source": "folder",
            "dir": str(folder),
            "validation": 2,
            "mean": (0.25, 0.5, 0.75),
            "std": (0.1, 0.2, 0.3),
        },
        "augment": {"crop": "none"},
        "schedule": {"warmup": 0},
        "model": {"patch_size": 2, "width": 16, "depth": 1, "num_heads": 2},
    }
    train_and_evaluate(make_config(config), tmp_path / "run")
    main([f"--run={tmp_path / 'run'}", f"--out={tmp_path / 'o'}", "--tsne_images=10"])
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert summary["config_mean"] == [0.25, 0.5, 0.75]
    assert summary["class_counts"]["train"] == [5, 5]
    assert "features" in summary["distances"]
    with Image.open(tmp_path / "o" / "class_patches.png") as figure:
        assert figure.width > 100
    with pytest.raises(UserError, match="give either --config=CONFIG or --run=RUN"):
        main(["--config=vit_cifar", f"--run={tmp_path / 'run'}", "--out=o"])
    with pytest.raises(UserError, match="give either"):
        main(["--out=o"])
    with pytest.raises(UserError, match="only --data_source"):
        main([f"--run={tmp_path / 'run'}", "--out=o", "--config.model.patch_size=4"])


def test_a_run_on_other_images_is_refused(tiny_run):
    dataset = make_dataset(np.zeros((12, 4, 4, 3), np.uint8))
    with pytest.raises(UserError, match=r"\[12, 4, 4, 3\].*\[n, 8, 8, 1\]"):
        explore.draw_spaces(dataset, load_run(tiny_run[0]))
