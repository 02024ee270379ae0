"""Image files of many kinds as arrays."""

import io
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from PIL import Image, ImageDraw, PngImagePlugin

from tests.data.png_files import png_header
from vit_jax.data.image_files import (
    MAX_PIXELS,
    UnreadableImageError,
    decode_image,
    read_image,
)


def test_exif_data_that_pillow_cannot_write_or_read(tmp_path):
    image = Image.fromarray(np.zeros((4, 6, 3), np.uint8))
    # The orientation 6, and a resolution that is a text in place of a fraction.
    entries = struct.pack("<HHIHHHHI4s", 0x0112, 3, 1, 6, 0, 0x011A, 2, 3, b"72")
    odd = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 2) + entries + bytes(4)
    image.save(tmp_path / "odd.jpg", exif=odd)
    assert read_image(tmp_path / "odd.jpg")[0].shape == (6, 4, 3)
    # As ImageMagick keeps them in a PNG.
    text, size = PngImagePlugin.PngInfo(), len(odd)
    text.add_text("Raw profile type exif", f"\nexif\n{size:8}\n{odd.hex()}\n")
    image.save(tmp_path / "odd.png", pnginfo=text)
    assert read_image(tmp_path / "odd.png")[0].shape == (6, 4, 3)
    image.save(tmp_path / "cut.png", exif=b"II*\0")
    assert read_image(tmp_path / "cut.png")[0].shape == (4, 6, 3)


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


def test_transparent_parts_become_white(tmp_path):
    Image.new("RGBA", (2, 2), (200, 0, 0, 0)).save(tmp_path / "clear.png")
    assert read_image(tmp_path / "clear.png")[0].tolist() == [[[255] * 3] * 2] * 2


@pytest.mark.parametrize("channels", [1, 3])
def test_decoded_images_are_resized_as_pillow_does(channels):
    shape = (13, 9, channels)
    image = np.random.RandomState(0).randint(0, 256, shape, np.uint8)
    file = io.BytesIO()
    Image.fromarray(image.squeeze()).save(file, "PNG")
    np.testing.assert_array_equal(decode_image(file.getvalue(), channels), image)
    resized = decode_image(file.getvalue(), channels, 5)
    assert resized.shape == (5, 5, channels)
    for channel in range(channels):
        # The middle 9 of 13 rows.
        whole, middle = Image.fromarray(image[..., channel]), (0, 2, 9, 11)
        wanted = whole.resize((5, 5), Image.BILINEAR, middle)
        np.testing.assert_array_equal(resized[..., channel], np.asarray(wanted))


def test_largest_accepted_claim_gets_as_far_as_decoding(tmp_path):
    (tmp_path / "large.png").write_bytes(png_header(5792, 5792))
    with pytest.raises(UnreadableImageError, match=r"large.png"):
        read_image(tmp_path / "large.png")


@pytest.mark.parametrize("size, turned", [((40, 20), 1), ((20, 40), 1), ((20, 40), 6)])
def test_photos_are_cropped_and_not_squashed(tmp_path, size, turned):
    """A disc in the middle of a wide or a high photo stays a disc."""
    image = Image.new("RGB", size)
    middle = [side // 2 for side in size]
    ImageDraw.Draw(image).circle(middle, 8, fill="white")
    exif = Image.Exif()
    exif[0x0112] = turned
    image.save(tmp_path / "disc.png", exif=exif)
    array, _ = read_image(tmp_path / "disc.png", 20)
    across, down = (array[..., 0].max(axis=axis) > 127 for axis in (0, 1))
    assert across.sum() == down.sum() in (16, 17)


RAMP = np.arange(0, 65536, 4096, dtype=np.uint16).reshape(4, 4)


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_16_bits_are_scaled_to_8(suffix, tmp_path):
    Image.fromarray(RAMP).save(tmp_path / f"image.{suffix}")
    image, _ = read_image(tmp_path / f"image.{suffix}")
    np.testing.assert_array_equal(image[..., 0], RAMP >> 8)


def test_a_transparent_value_of_16_bits_becomes_white(tmp_path):
    """Pillow writes none; it stands in the chunk before that of the pixels."""
    file = io.BytesIO()
    Image.fromarray(RAMP).save(file, "PNG")
    content, value = b"tRNS" + struct.pack(">H", RAMP[1, 1]), int(RAMP[1, 1])
    chunk = struct.pack(">I", 2) + content + struct.pack(">I", zlib.crc32(content))
    place = file.getvalue().index(b"IDAT") - 4
    path = tmp_path / "image.png"
    path.write_bytes(file.getvalue()[:place] + chunk + file.getvalue()[place:])
    expected = np.where(value == RAMP, 255, RAMP >> 8)
    np.testing.assert_array_equal(read_image(path)[0][..., 0], expected)


@pytest.mark.parametrize("suffix", ["tif", "pfm"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_pixels_without_a_known_white_are_refused(suffix, dtype, tmp_path):
    if (suffix, dtype) == ("pfm", np.int32):
        suffix = "tiff"  # a PFM file has floats only
    path = tmp_path / f"image.{suffix}"
    Image.fromarray(RAMP.astype(dtype)).save(path, "PPM" if suffix == "pfm" else None)
    with pytest.raises(UnreadableImageError, match="pixels of 32 bits"):
        read_image(path)


@pytest.mark.parametrize("times, scale", [(0.9, 1), (1.1, 2), (2.9, 2), (3.1, 4)])
@pytest.mark.parametrize("second", [False, True], ids=["jpeg", "as phones write"])
def test_a_huge_jpeg_is_read_smaller(tmp_path, monkeypatch, times, scale, second):
    """The photo keeps its halves; phones may store a second image in the file."""
    monkeypatch.setattr("vit_jax.data.image_files.MAX_PIXELS", int(512 * 256 / times))
    image = Image.new("RGB", (512, 256), "white")
    image.paste("black", (0, 0, 256, 256))
    more = {"format": "MPO", "save_all": True, "append_images": [image]}
    image.save(tmp_path / "huge.jpg", quality=95, **(more if second else {}))
    array, _ = read_image(tmp_path / "huge.jpg")
    assert array.shape == (256 // scale, 512 // scale, 3)
    left, right = np.split(array, 2, axis=1)
    assert left.max() < 40 and right.min() > 215


@pytest.mark.slow
def test_the_largest_image_takes_less_than_a_gigabyte(tmp_path):
    """Many threads decode one at a time; the allocator keeps what they freed."""
    side = int(MAX_PIXELS**0.5)
    image = np.random.default_rng(0).integers(256, size=(8, side, 4), dtype=np.uint8)
    image = np.tile(image, (side // 8, 1, 1))
    # Noise cannot be compressed, and to try it takes seconds.
    Image.fromarray(image).save(tmp_path / "image.png", compress_level=0)
    program = (
        "import pathlib, re, sys\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from vit_jax.data.image_files import read_image\n"
        f"path = pathlib.Path({str(tmp_path / 'image.png')!r})\n"
        "count = int(sys.argv[1])\n"
        "with ThreadPoolExecutor(count) as pool:\n"
        "    list(pool.map(lambda _: read_image(path, 32), range(count)))\n"
        # ru_maxrss would begin with the size of the process that started this one.
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(re.search(r'VmHWM:\\s*(\\d+)', status)[1])\n"
    )
    for num_threads, limit in ((1, 1_000_000), (4, 1_800_000)):  # kB
        command = [sys.executable, "-c", program, str(num_threads)]
        shown = subprocess.run(command, capture_output=True, text=True)
        assert int(shown.stdout) < limit, shown


def test_a_file_that_is_no_image_says_what_can_be_read(tmp_path):
    file = tmp_path / "notes.png"
    file.write_text("no image")
    with pytest.raises(UnreadableImageError, match=r"no image of a kind .*PNG, JPEG"):
        read_image(file)
