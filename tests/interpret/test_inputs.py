"""Image files as input of a model."""

import numpy as np
import pytest
from PIL import Image

from vit_jax.errors import UserError
from vit_jax.interpret import inputs


def test_a_folder_gives_its_images_in_the_models_shape(pictures, capsys):
    files = inputs.find_images([str(pictures)])
    assert [file.name for file in files] == ["a.png", "b.jpg", "c.png"]
    read, images = zip(*inputs.read_images(files, (8, 6, 1)), strict=True)
    assert list(read) == files and np.shape(images) == (3, 8, 6, 1)
    notes = capsys.readouterr().err.splitlines()
    assert len(notes) == 2 and "b.jpg is RGB, but the model takes grey" in notes[0]
    assert "c.png is transparent" in notes[1]
    for _, image in inputs.read_images(files, (4, 4, 3)):
        assert image.shape == (4, 4, 3)


def test_a_photo_is_drawn_upright_in_its_own_size(pictures, tmp_path):
    photo = inputs.read_photo(pictures / "b.jpg", (8, 12, 1))
    np.testing.assert_array_equal(photo, np.asarray(Image.open(pictures / "b.jpg")))
    # A square model sees the middle of it.
    photo = inputs.read_photo(pictures / "b.jpg", (8, 8, 1))
    assert photo.shape == (20, 20, 3)
    exif = Image.Exif()
    exif[0x0112] = 6  # To be turned clockwise by a quarter: left becomes top.
    image = Image.new("RGB", (3200, 1600))
    image.paste("white", (0, 0, 1600, 1600))
    image.save(tmp_path / "turned.png", exif=exif)
    photo = inputs.read_photo(tmp_path / "turned.png", (8, 4, 3))
    assert photo.shape == (1200, 600, 3)
    assert photo[:590].min() > 250 and photo[610:].max() < 5
    # What the model takes is the same photo.
    ((_, small),) = inputs.read_images([tmp_path / "turned.png"], (8, 4, 3))
    assert small[:3].min() > 250 and small[5:].max() < 5


def test_what_cannot_be_looked_at_is_skipped(tmp_path, capsys):
    files = inputs.find_images([str(tmp_path / ("x" * 300))])
    assert not list(inputs.read_images(files, (4, 4, 3)))
    assert "File name too long" in capsys.readouterr().err


def test_a_folder_without_an_image_is_refused(tmp_path):
    for name in ("notes.txt", "._a.jpg", "jpg"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match="holds no image"):
        inputs.find_images([str(tmp_path)])
    with pytest.raises(UserError, match="name of an image file is empty"):
        inputs.find_images([""])
