"""TFDS with the real CIFAR-10, prepared offline, with small datasets and failures."""

import http.server
import socket
import subprocess
import sys
import warnings

import numpy as np
import pytest

from tests.data.servers import serving
from vit_jax import data
from vit_jax.config import make_config
from vit_jax.data import download, from_tfds
from vit_jax.errors import UserError

with warnings.catch_warnings():
    # Importing TensorFlow gives warnings that this project cannot avoid.
    warnings.simplefilter("ignore")
    pytest.importorskip("tensorflow", reason="preparing datasets needs TensorFlow")
    import tensorflow_datasets as tfds

pytestmark = pytest.mark.slow

# It stands before a program and hides JAX and the packages of the extra "tfds".
WITHOUT_TENSORFLOW = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, path=None, target=None: (
    None if name in ("tensorflow", "importlib_resources", "jax")
    else find(name, path, target))
import numpy as np
from vit_jax.data import from_cifar_files, from_tfds
from vit_jax.errors import UserError
"""


def run(program, *arguments):
    result = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert "oneDNN" not in result.stderr, "TensorFlow announces itself"
    return result.stdout


@pytest.fixture
def prepared(cifar10_dir, tmp_path):
    """A TFDS data_dir with real images of CIFAR-10, from the folder of official files.

    All files are read and checked, but TFDS, which takes a millisecond an image, is
    given every 50th image, of each file.
    """
    program = """
import sys
from vit_jax.data import from_tfds
read = from_tfds.read_records
def read_some(path, name):
    splits, class_names = read(path, name)
    return {split: rows[::50] for split, rows in splits.items()}, class_names
from_tfds.read_records = read_some
data_dir, files = sys.argv[1:]
from_tfds.prepare("cifar10", data_dir, archive=files, download=False)
"""
    run(program, tmp_path / "data", cifar10_dir)
    return tmp_path / "data"


def test_cifar10(prepared, cifar10_dir):
    builder = tfds.builder("cifar10", data_dir=prepared)
    assert builder.is_prepared()
    assert builder.info.file_format == tfds.core.FileFormat.ARRAY_RECORD
    assert builder.info.splits["train"].num_examples == 1_000
    assert builder.info.splits["test"].num_examples == 200
    assert builder.info.features["label"].names[3] == "cat"
    # Read without TensorFlow, they equal those of the official files bit by bit.
    program = """
import sys
data_dir, files = sys.argv[1:]
ours = from_tfds.load("cifar10", data_dir, download=False)
official = from_cifar_files.load("cifar10", files)
assert ours.keys() == official.keys() == {"train", "test"}
for split in ours:
    np.testing.assert_array_equal(ours[split].images, official[split].images[::50])
    np.testing.assert_array_equal(ours[split].labels, official[split].labels[::50])
    assert ours[split].class_names == official[split].class_names
assert not {"tensorflow", "jax"} & set(sys.modules)
print("equal")
"""
    assert run(WITHOUT_TENSORFLOW + program, prepared, cifar10_dir) == "equal\n"


def test_preparing_without_tensorflow(tmp_path):
    program = """
import sys
try:
    from_tfds.load("cifar10", sys.argv[1], archive=sys.argv[1])
except UserError as error:
    print(error)
"""
    message = run(WITHOUT_TENSORFLOW + program, tmp_path)
    assert "cifar10 cannot be prepared" in message
    assert "pip install tensorflow-cpu importlib_resources" in message
    assert "config.data.source=cifar_files" in message


# ---- small datasets


class PicturesConfig(tfds.core.BuilderConfig):
    """One kind of small dataset."""

    def __init__(self, name, shape=(4, 4, 3), splits=("train", "test")):
        super().__init__(name=name)
        self.shape, self.splits = shape, splits


class TinyPictures(tfds.core.GeneratorBasedBuilder):
    """Each image is filled with its number; classes take turns."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [  # noqa: RUF012 (TFDS's own convention)
        PicturesConfig("plain"),
        PicturesConfig("grey", shape=(4, 4, 1)),
        PicturesConfig("sizes", shape=(None, None, 3), splits=("train", "validation")),
        PicturesConfig("one_split", splits=("train",)),
        PicturesConfig("three_splits", splits=("train", "validation", "test")),
        PicturesConfig("no_train", splits=("test",)),
        PicturesConfig("alpha", shape=(4, 4, 4)),
        PicturesConfig("remote"),
    ]

    def _info(self):
        features = {
            "image": tfds.features.Image(shape=self.builder_config.shape),
            "label": tfds.features.ClassLabel(names=["even", "odd"]),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(features),
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager):
        if self.builder_config.name == "remote":
            dl_manager.download(next(iter(self.url_infos)))
        return {
            split: self._generate_examples(i)
            for i, split in enumerate(self.builder_config.splits)
        }

    def _generate_examples(self, split):
        height, width, channels = self.builder_config.shape
        for i in range(20):
            shape = (height or 3 + i, width or 5, channels)
            yield i, {"image": np.full(shape, 10 * split + i, np.uint8), "label": i % 2}


def test_small_dataset_in_both_file_formats(tmp_path):
    orders = []
    for file_format in ("array_record", "tfrecord"):
        folder = tmp_path / file_format
        builder = tfds.builder("tiny_pictures/plain", data_dir=folder)
        builder.download_and_prepare(file_format=file_format)
        splits = from_tfds.load("tiny_pictures/plain", str(folder))
        assert set(splits) == {"train", "test"}
        for start, split in ((0, splits["train"]), (10, splits["test"])):
            assert split.class_names == ("even", "odd")
            values = split.images[:, 0, 0, 0]
            assert sorted(values) == list(range(start, start + 20))
            whole = np.broadcast_to(values[:, None, None, None], (20, 4, 4, 3))
            np.testing.assert_array_equal(split.images, whole)
            np.testing.assert_array_equal(split.labels, values % 2)
        orders.append(splits["train"].images)
    np.testing.assert_array_equal(*orders)


def test_grey_images_in_the_home_folder(tmp_path, monkeypatch):
    builder = tfds.builder("tiny_pictures/grey", data_dir=tmp_path / "prepared")
    builder.download_and_prepare(file_format="array_record")
    monkeypatch.setenv("HOME", str(tmp_path))
    splits = from_tfds.load("tiny_pictures/grey", "~/prepared", download=False)
    assert splits["train"].images.shape == (20, 4, 4, 1)


@pytest.mark.parametrize("damage", ["cut off", "altered", "missing"])
def test_damaged_dataset(tmp_path, damage):
    from_tfds.load("tiny_pictures/plain", str(tmp_path))
    (file,) = tmp_path.rglob("*-train.array_record-*")
    content = file.read_bytes()
    file.unlink()
    if damage == "cut off":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "altered":
        file.write_bytes(content[:400] + bytes([content[400] ^ 1]) + content[401:])
    with pytest.raises(UserError, match=r"1.0.0 is damaged .*; delete that folder"):
        from_tfds.load("tiny_pictures/plain", str(tmp_path))


def test_damaged_description(tmp_path):
    from_tfds.load("tiny_pictures/plain", str(tmp_path))
    (file,) = tmp_path.rglob("dataset_info.json")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(UserError, match=r"of tiny_pictures/plain in /.* is damaged"):
        from_tfds.load("tiny_pictures/plain", str(tmp_path))


def test_a_missing_reader_is_no_damage(tmp_path):
    from_tfds.load("tiny_pictures/plain", str(tmp_path))
    program = f"""{WITHOUT_TENSORFLOW.replace('"jax"', '"array_record"')}
import sys
try:
    from_tfds.load("tiny_pictures/plain", sys.argv[1])
except UserError as error:
    print(error)
"""
    told = run(program, tmp_path)
    assert "array_record" in told and "install what is missing" in told


def test_images_of_many_sizes(tmp_path):
    with pytest.raises(
        UserError, match=r"have different sizes; set config\.data\.image_size"
    ):
        from_tfds.load("tiny_pictures/sizes", str(tmp_path))
    splits = from_tfds.load("tiny_pictures/sizes", str(tmp_path), image_size=6)
    assert splits["train"].images.shape == splits["val"].images.shape == (20, 6, 6, 3)
    assert sorted(splits["val"].images[:, 5, 5, 1]) == list(range(10, 30))


def test_splits(tmp_path):
    settings = {"name": "tiny_pictures/one_split", "dir": str(tmp_path)}
    settings |= {"validation": 0, "select_on": "nothing"}
    splits = data.load(make_config({"data": settings}).data)
    assert {name: len(split) for name, split in splits.items()} == {
        "train": 16,
        "test": 4,
    }
    splits = from_tfds.load("tiny_pictures/three_splits", str(tmp_path))
    assert set(splits) == {"train", "val", "test"}
    with pytest.raises(UserError, match=r"no train split, only test"):
        from_tfds.load("tiny_pictures/no_train", str(tmp_path))


def test_images_that_are_neither_grey_nor_rgb(tmp_path):
    with pytest.raises(UserError, match=r"no 8-bit grey or RGB image.*image, label"):
        from_tfds.load("tiny_pictures/alpha", str(tmp_path))


# ---- names, archives and the network


def test_unknown_name(tmp_path):
    with pytest.raises(
        UserError, match=r"no dataset 'cifar_10' \(did you mean \"cifar"
    ):
        from_tfds.load("cifar_10", str(tmp_path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar-10", r"no dataset 'cifar-10' .did you mean .cifar10"),
        ("cifar100_coarse", r"no dataset cifar100_coarse; set .*source=cifar_files"),
        ("cifar10:9.9.9", r"no dataset 'cifar10:9.9.9' .*9\.9\.9.*catalog"),
        ("imagenet_resized/31x31", r"no dataset 'imagenet_resized/31x31' .*catalog"),
    ],
)
def test_unknown_forms_configs_and_versions(name, message, tmp_path):
    with pytest.raises(UserError, match=message):
        from_tfds.load(name, str(tmp_path))


def test_archive_of_another_dataset(tmp_path):
    with pytest.raises(UserError, match=r"can prepare cifar10 and cifar100, not mnist"):
        from_tfds.load("mnist", str(tmp_path), archive="mnist.tar.gz")


@pytest.mark.parametrize("below", [False, True])
def test_folder_of_official_files(tmp_path, below):
    """It is not downloaded once more where the official files already lie."""
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "data_batch_1").touch()
    given = tmp_path if below else folder
    message = "holds the official files of cifar10.* --config.data.source=cifar_files"
    with pytest.raises(UserError, match=message):
        from_tfds.load("cifar10", str(given))


def test_neither_prepared_nor_download(tmp_path):
    message = r"cifar10 is not prepared in .*download is False.*archive.*source=digits"
    with pytest.raises(UserError, match=message):
        from_tfds.load("cifar10", str(tmp_path), download=False)


def test_missing_archive(tmp_path):
    with pytest.raises(UserError, match=r"nothing.tar.gz does not exist"):
        from_tfds.load(
            "cifar10", str(tmp_path), archive=str(tmp_path / "nothing.tar.gz")
        )
    assert not (tmp_path / "cifar10").exists()


def set_url(monkeypatch, url):
    infos = {url: tfds.download.checksums.UrlInfo(size=1, checksum="", filename="data")}
    monkeypatch.setattr(TinyPictures, "url_infos", infos)


def test_a_host_that_is_down(tmp_path, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # Bound but not listening: refuses connections.
        host = f"127.0.0.1:{unused.getsockname()[1]}"
        set_url(monkeypatch, f"http://{host}/data")
        message = r"cannot prepare tiny_pictures .*refused.*digits"
        with pytest.raises(UserError, match=message):
            from_tfds.load("tiny_pictures/remote", str(tmp_path))


class Stalling(http.server.BaseHTTPRequestHandler):
    """Announces a file, sends a part of it, and then stops."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self.wfile.write(bytes(1000))
        self.server.stopped.wait()

    def log_message(self, *args):
        pass


def test_a_download_that_stalls(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.5)
    with serving(Stalling) as server:
        set_url(monkeypatch, f"{server.url}/data")
        with pytest.raises(
            UserError, match=r"cannot prepare tiny_pictures .*timed out"
        ):
            from_tfds.load("tiny_pictures/remote", str(tmp_path))
