"""Folders of image files, valid and invalid."""

import logging

import numpy as np
import pytest
from PIL import Image

import vit_jax
from tests.data.png_files import png_header
from vit_jax import data
from vit_jax.config import make_config
from vit_jax.data import from_folder
from vit_jax.data.image_files import MAX_PIXELS
from vit_jax.errors import UserError

COLORS = {"blue": (10, 20, 200), "red": (200, 20, 10)}


def save(path, color, size=(6, 6), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).convert(mode).save(path)


@pytest.fixture
def splits(tmp_path):
    """train/ and test/ with two classes; every image has the color of its class."""
    for name, color in COLORS.items():
        for i, suffix in enumerate(("png", "bmp", "webp")):
            save(tmp_path / "train" / name / f"{i}.{suffix}", color)
        save(tmp_path / "test" / name / "0.png", color)
    return tmp_path


def test_train_and_test(splits):
    parts = from_folder.load(str(splits))
    assert set(parts) == {"train", "test"}
    assert len(parts["train"]) == 6 and len(parts["test"]) == 2
    for part in parts.values():
        assert part.class_names == ("blue", "red")
        assert part.images.shape[1:] == (6, 6, 3)
    np.testing.assert_array_equal(parts["train"].labels, [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(parts["train"].images[0, 0, 0], COLORS["blue"])
    np.testing.assert_array_equal(parts["test"].images[1, 5, 5], COLORS["red"])


@pytest.mark.parametrize("name", ["test", "val"])
def test_a_split_beside_classes_is_no_class(splits, name):
    for color in COLORS:
        (splits / "train" / color).rename(splits / color)
    (splits / "train").rmdir()
    (splits / "test").rename(splits / name)
    with pytest.raises(UserError, match=f"has a folder {name}, .* into .*/train, or"):
        from_folder.load(str(splits))


def test_of_many_files_that_are_no_images_five_are_named(splits, caplog):
    for number in range(9):
        (splits / "train" / "red" / f"{number}.txt").write_text("no image")
    from_folder.load(str(splits))
    skipped = [m for m in caplog.messages if m.startswith("Skipped")]
    assert len(skipped) == 6 and skipped[-1].endswith(": 4 more files")


def test_images_outside_of_class_folders_are_named(splits, caplog):
    save(splits / "one.JPG", COLORS["red"])
    save(splits / "train" / "two.png", COLORS["red"])
    (splits / "train" / "labels.csv").write_text("no image")
    assert len(from_folder.load(str(splits))["train"]) == 6
    (message,) = [m for m in caplog.messages if "in the folder of a class" in m]
    assert message.endswith(f": {splits / 'one.JPG'}, {splits / 'train' / 'two.png'}")


def test_train_val_and_test(splits):
    for name, color in COLORS.items():
        save(splits / "val" / name / "0.png", color)
        save(splits / "val" / name / "1.png", color)
    parts = from_folder.load(str(splits))
    assert {name: len(part) for name, part in parts.items()} == {
        "train": 6,
        "val": 4,
        "test": 2,
    }


def test_one_folder_is_divided(tmp_path):
    for name, color in COLORS.items():
        for i in range(10):
            save(tmp_path / name / f"{i}.png", color)
    settings = {"source": "folder", "dir": str(tmp_path), "validation": 0}
    config = make_config({"data": settings | {"select_on": "nothing"}})
    parts = data.load(config.data)
    assert parts["train"].count_classes().tolist() == [8, 8]
    assert parts["test"].count_classes().tolist() == [2, 2]


def test_sizes(splits):
    save(splits / "train" / "red" / "wide.png", COLORS["red"], size=(9, 5))
    message = r"wide.png has shape \[5, 9, 3\], but .*0.png has \[6, 6, 3\]"
    with pytest.raises(UserError, match=message + r".*config\.data\.image_size"):
        from_folder.load(str(splits))
    parts = from_folder.load(str(splits), image_size=4)
    assert parts["train"].images.shape == (7, 4, 4, 3)
    np.testing.assert_array_equal(parts["train"].images[-1, 2, 2], COLORS["red"])


def test_converted_and_skipped_files_are_named(splits, caplog):
    save(splits / "train" / "red" / "grey.png", (50, 50, 50), mode="L")
    save(splits / "train" / "red" / "palette.gif", COLORS["red"], mode="P")
    save(splits / "train" / "red" / "rgba.png", COLORS["red"], mode="RGBA")
    (splits / "train" / "red" / "notes.txt").write_text("no image")
    (splits / "train" / "red" / ".hidden").write_text("not even named")
    whole = (splits / "train" / "red" / "0.png").read_bytes()
    (splits / "train" / "red" / "broken.png").write_bytes(whole[:45])
    with caplog.at_level(logging.WARNING):
        train = from_folder.load(str(splits))["train"]
    assert len(train) == 9 and train.images.shape[-1] == 3
    assert (
        "Converted to RGB: 1 grey, 1 palette, 1 transparent of 11 images" in caplog.text
    )
    assert "notes.txt" in caplog.text and "broken.png" in caplog.text
    assert ".hidden" not in caplog.text


@pytest.mark.parametrize("side", [8193, 10_000, 100_000])
def test_decompression_bomb(splits, side):
    assert side**2 > MAX_PIXELS
    (splits / "train" / "red" / "bomb.png").write_bytes(png_header(side, side))
    with pytest.raises(UserError, match=r"bomb.png has .* more than the 33554432 that"):
        from_folder.load(str(splits))


def test_folders_that_are_not_read_are_named(splits, caplog):
    for path in ("train/red/2019", "valid/red"):
        (splits / path).mkdir(parents=True)
    from_folder.load(str(splits))
    assert "only train, val and test are: valid" in caplog.text
    assert "directly in a class folder are: red/2019" in caplog.text


def test_empty_class(splits):
    (splits / "train" / "green").mkdir()
    (splits / "test" / "green").mkdir()
    with pytest.raises(UserError, match=r"train/green has no readable image"):
        from_folder.load(str(splits))


def test_classes_differ_between_splits(splits):
    save(splits / "test" / "green" / "0.png", (0, 255, 0))
    with pytest.raises(UserError, match=r"different classes: green in only one"):
        from_folder.load(str(splits))


@pytest.mark.parametrize("twin", ["Red", "red "])
def test_two_classes_with_one_name(splits, twin):
    save(splits / "train" / twin / "0.png", COLORS["red"])
    with pytest.raises(UserError, match=r'one name, ".*" and "red ?"'):
        from_folder.load(str(splits))


def test_no_classes_and_no_folder(tmp_path):
    with pytest.raises(UserError, match=r"has no class folders"):
        from_folder.load(str(tmp_path))
    for path in ("", str(tmp_path / "nothing")):
        with pytest.raises(UserError, match="which is no folder, but must name one"):
            from_folder.load(path)


@pytest.mark.slow
def test_the_config_for_photos_trains_on_photos_of_all_kinds(tmp_path, capsys):
    """Unequal classes, one of them tiny; wide, high, grey and transparent photos."""
    rng = np.random.default_rng(0)
    kinds = [("RGB", (90, 60)), ("L", (50, 80)), ("RGBA", (70, 70)), ("RGB", (60, 200))]
    for name, count, color in (("cat", 40, 255), ("dog", 12, 128), ("emu", 3, 0)):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(count):
            mode, size = kinds[i % 4]
            noise = rng.integers(60, size=(*size[::-1], 4), dtype=np.uint8)
            pixels = np.clip(noise.astype(int) + color - 30, 0, 255).astype(np.uint8)
            pixels = pixels[..., 0] if mode == "L" else pixels[..., : len(mode)]
            Image.fromarray(pixels).save(tmp_path / "pets" / name / f"{i}.png")
    config = vit_jax.load_config(
        "folder",
        {
            "data.dir": str(tmp_path / "pets"),
            "num_steps": 2,
            "batch_size": 8,
            "num_devices": 1,
            "model.width": 16,
            "model.depth": 1,
        },
    )
    results = vit_jax.train(config, tmp_path / "run")
    assert "pets (folder), 64x64x3 images" in capsys.readouterr().out
    assert results["val"]["num_examples"] == 4
    # A fifth of each class, and one of the three emus.
    support = [one["support"] for one in results["test"]["per_class"].values()]
    assert support == [8, 2, 1]
    assert results["test"]["majority_class"] == {"name": "cat", "accuracy": 8 / 11}
    assert vit_jax.load_run(tmp_path / "run").config.data.name == "pets"
