"""Image files of many kinds as arrays."""

import numpy as np
import pytest
from PIL import Image

from tests.data.png_files import png_header
from vit_jax.data.image_files import UnreadableImageError, read_image, resize_image


def test_jpeg_and_exif_orientation(tmp_path):
    image = Image.new("RGB", (8, 4), "white")
    image.paste("black", (0, 0, 4, 4))  # The left half.
    exif = Image.Exif()
    # Viewers turn the image clockwise by a quarter, so that left becomes top.
    exif[0x0112] = 6
    image.save(tmp_path / "turned.jpg", quality=95, exif=exif)
    array, mode = read_image(tmp_path / "turned.jpg")
    assert mode == "RGB" and array.shape == (8, 4, 3)
    assert array[:4].max() < 40 and array[4:].min() > 215


def test_transparency_and_16_bits(tmp_path):
    Image.new("RGBA", (2, 2), (200, 0, 0, 0)).save(tmp_path / "clear.png")
    assert read_image(tmp_path / "clear.png")[0].tolist() == [[[255] * 3] * 2] * 2
    deep = np.array([[0, 256 * 77], [256 * 128, 65535]], np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    array, mode = read_image(tmp_path / "deep.png")
    assert mode == "I;16"
    np.testing.assert_array_equal(array[..., 1], [[0, 77], [128, 255]])


@pytest.mark.parametrize("channels", [1, 3])
def test_resize_image_equals_pillow(channels):
    shape = (13, 9, channels)
    image = np.random.RandomState(0).randint(0, 256, shape, np.uint8)
    resized = resize_image(image, 5)
    assert resized.shape == (5, 5, channels)
    for channel in range(channels):
        wanted = Image.fromarray(image[..., channel]).resize((5, 5), Image.BILINEAR)
        np.testing.assert_array_equal(resized[..., channel], np.asarray(wanted))


def test_largest_accepted_claim_gets_as_far_as_decoding(tmp_path):
    (tmp_path / "large.png").write_bytes(png_header(8192, 8192))
    with pytest.raises(UnreadableImageError, match=r"large.png"):
        read_image(tmp_path / "large.png")
