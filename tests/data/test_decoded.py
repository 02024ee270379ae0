"""Folders that are too large for memory: decoded into a file, mapped, never copied."""

import json
import logging
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tests.parallel.running import require_mount
from vit_jax import data
from vit_jax.config import make_config
from vit_jax.data import Rows, decoded, from_folder
from vit_jax.errors import UserError


@pytest.fixture
def folder(tmp_path):
    """300 different noisy images of two classes, which are more than one block."""
    random = np.random.RandomState(0)
    for name in ("blue", "red"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for i in range(150):
            image = random.randint(0, 256, (5, 7, 3), np.uint8)
            Image.fromarray(image).save(tmp_path / "images" / name / f"{i}.png")
    return tmp_path / "images"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder in which every array is large enough to be kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(decoded, "MAX_MEMORY_BYTES", 0)
    return tmp_path / "cache" / "vit_jax" / "folders"


def config_of(folder, **changes):
    settings = {"source": "folder", "dir": str(folder), "validation": 40}
    return make_config({"data": settings | changes}).data


def test_a_mapped_folder_is_the_same_data(folder, cache, monkeypatch):
    mapped = data.load(config_of(folder))
    again = data.load(config_of(folder))
    monkeypatch.setattr(decoded, "MAX_MEMORY_BYTES", 1 << 30)
    shutil.rmtree(cache)
    in_memory = data.load(config_of(folder))
    assert not cache.exists()
    for name, split in in_memory.items():
        assert isinstance(split.images, np.ndarray)
        for other in (mapped[name], again[name]):
            assert isinstance(other.images, Rows)
            assert other.images.nbytes == split.images.nbytes
            np.testing.assert_array_equal(np.asarray(other.images), split.images)
            np.testing.assert_array_equal(other.labels, split.labels)
    train = config_of(folder), mapped["train"], in_memory["train"]
    assert data.normalization(*train[:2]) == data.normalization(train[0], train[2])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the maps")
def test_splits_share_one_read_only_map(folder, cache):
    splits = data.load(config_of(folder))
    assert splits.keys() == {"train", "val", "test"}
    (entry,) = cache.iterdir()
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    (line,) = (line for line in maps if line.endswith(f"{entry.name}/images.npy"))
    assert line.split()[1].startswith("r--")
    assert entry.stat().st_mode & 0o077 == 0, "the images are the user's alone"


def test_the_second_start_decodes_nothing(folder, cache):
    before = np.asarray(data.load(config_of(folder))["train"].images)
    for file in folder.rglob("*.png"):
        status = file.stat()
        file.write_bytes(b"\0" * status.st_size)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = data.load(config_of(folder))["train"].images
    np.testing.assert_array_equal(before, after)


def test_changed_files_are_decoded_again(folder, cache):
    first = data.load(config_of(folder))
    Image.new("RGB", (7, 5), "white").save(folder / "blue" / "0.png")
    second = data.load(config_of(folder))
    resized = data.load(config_of(folder, image_size=4))
    assert len(list(cache.iterdir())) == 3
    parts = [np.concatenate([p.images[:] for p in s.values()]) for s in (first, second)]
    assert (parts[0] != parts[1]).any(axis=(1, 2, 3)).sum() == 1
    assert resized["train"].images.shape[1:] == (4, 4, 3)


def test_folders_that_look_alike_have_entries_of_their_own(tmp_path, cache):
    """All files have the same size and time, as from a reproducible archive."""
    for split, level in (("train", 10), ("test", 200)):
        for name in ("blue", "red"):
            file = tmp_path / "images" / split / name / "0.bmp"
            file.parent.mkdir(parents=True)
            Image.new("RGB", (4, 4), (level,) * 3).save(file)
            os.utime(file, (1, 1))
    splits = from_folder.load(str(tmp_path / "images"))
    assert {name: int(split.images.max()) for name, split in splits.items()} == {
        "train": 10, "test": 200,
    }  # fmt: skip


def test_a_damaged_entry_is_named(folder, cache):
    data.load(config_of(folder))
    (entry,) = cache.iterdir()
    with (entry / "images.npy").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(UserError, match=f"{entry.name} are damaged .*remove that"):
        data.load(config_of(folder))


def test_unreadable_files_are_named_at_every_start(folder, cache, caplog):
    (folder / "blue" / "1.png").write_bytes(b"no image")
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            splits = data.load(config_of(folder))
        assert "Skipped, no readable image" in caplog.text
        assert "blue/1.png" in caplog.text
        assert sum(map(len, splits.values())) == 299
    (entry,) = cache.iterdir()
    assert len(json.loads((entry / "index.json").read_text())["kept"]) == 299


def test_a_refused_folder_leaves_nothing(folder, cache):
    Image.new("RGB", (9, 5)).save(folder / "red" / "wide.png")
    with pytest.raises(UserError, match=r"wide.png has shape \[5, 9, 3\]"):
        from_folder.load(str(folder))
    assert list(cache.iterdir()) == []


KILLED = """
import os, signal, sys
from vit_jax.data import decoded, from_folder
read, count = decoded.read_image, 0
def read_image(*arguments):
    global count
    count += 1
    if count == 290:
        os.kill(os.getpid(), signal.SIGKILL)
    return read(*arguments)
decoded.read_image, decoded.MAX_MEMORY_BYTES = read_image, 0
from_folder.load(sys.argv[1])
"""


@pytest.mark.slow
def test_a_kill_leaves_no_entry_that_looks_whole(folder, cache):
    root = str(pathlib.Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder)], env=environment, timeout=120
    )
    assert child.returncode == -signal.SIGKILL
    (leftover,) = cache.iterdir()
    assert leftover.name.startswith(".")
    splits = data.load(config_of(folder))
    assert sum(map(len, splits.values())) == 300
    assert np.asarray(splits["train"].images).any(axis=(1, 2, 3)).all()
    # What the killed process left is gone, and the entry is there.
    (entry,) = cache.iterdir()
    assert not entry.name.startswith(".")


FULL = """
import pathlib, sys
from vit_jax.data import decoded, from_folder
from vit_jax.errors import UserError
decoded.MAX_MEMORY_BYTES = 0
try:
    from_folder.load(sys.argv[1])
except UserError as error:
    print(error)
print([path.name for path in decoded.cache_folder().glob("folders/*")])
"""


# Too small for the images, and large enough for them but not for index.json.
@pytest.mark.slow
@pytest.mark.parametrize("size", ["24k", "32k"])
def test_a_full_disk(folder, tmp_path, size):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size={size} none {disk}"
    own = ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    require_mount(disk)
    environment = {"PYTHONPATH": str(pathlib.Path(__file__).parents[2])}
    child = subprocess.run(
        [*own, sys.executable, "-c", FULL, str(folder)],
        env=os.environ | environment | {"XDG_CACHE_HOME": str(disk)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    sentence, entries = child.stdout.splitlines()
    assert "No space left" in sentence and "need 31,500 bytes" in sentence
    assert "XDG_CACHE_HOME" in sentence and entries == "[]", child.stderr
