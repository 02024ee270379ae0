"""CIFAR from folders and archives, whole, damaged and hostile."""

import dataclasses
import functools
import gzip
import hashlib
import http.server
import io
import os
import pickle
import tarfile
import warnings

import numpy as np
import pytest

from tests.data.servers import serving
from vit_jax.config import default_config
from vit_jax.data import STATISTICS, from_cifar_files, normalization
from vit_jax.data.cifar_layouts import OFFICIAL
from vit_jax.errors import UserError

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse")


@pytest.fixture
def config_data():
    return default_config().data


# ---- the real files


@pytest.fixture(scope="module")
def cifar10(cifar10_dir):
    return from_cifar_files.load("cifar10", str(cifar10_dir))


def test_cifar10_equals_plain_unpickling(cifar10, cifar10_dir):
    assert {name: len(split) for name, split in cifar10.items()} == {
        "train": 50_000,
        "test": 10_000,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # A warning of NumPy about files this old.
        batches = {
            split: pickle.loads((cifar10_dir / file).read_bytes(), encoding="latin1")
            for split, file in (("train", "data_batch_5"), ("test", "test_batch"))
        }
    for split, batch in batches.items():
        images = batch["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        np.testing.assert_array_equal(cifar10[split].images[-10_000:], images)
        np.testing.assert_array_equal(cifar10[split].labels[-10_000:], batch["labels"])
    assert cifar10["train"].class_names == (*CLASSES, "ship", "truck")
    assert cifar10["train"].count_classes().tolist() == [5000] * 10


def measured(train, config_data):
    config_data.source = "folder"  # Statistics of folders are computed.
    return normalization(config_data, train)


def test_cifar10_statistics(cifar10, config_data):
    values = measured(cifar10["train"], config_data)
    np.testing.assert_allclose(values, STATISTICS["cifar10"], atol=6e-5)


def test_cifar100_statistics_and_both_kinds_of_label(cifar100_dir, config_data):
    fine = from_cifar_files.load("cifar100", str(cifar100_dir.parent))["train"]
    coarse = from_cifar_files.load("cifar100_coarse", str(cifar100_dir))["train"]
    assert (fine.num_classes, coarse.num_classes) == (100, 20)
    assert (fine.class_names[0], coarse.class_names[4]) == (
        "apple",
        "fruit_and_vegetables",
    )
    assert set(coarse.labels[fine.labels == 0]) == {4}, "an apple is a fruit"
    assert fine.count_classes().tolist() == [500] * 100
    values = measured(fine, config_data)
    for name in ("cifar100", "cifar100_coarse"):
        np.testing.assert_allclose(values, STATISTICS[name], atol=6e-5)


def test_an_altered_official_file_is_refused(cifar10_dir, tmp_path):
    for file in cifar10_dir.iterdir():
        if file.name != "data_batch_2":
            (tmp_path / file.name).symlink_to(file.resolve())
    content = bytearray((cifar10_dir / "data_batch_2").read_bytes())
    content[1_000_000] ^= 1
    (tmp_path / "data_batch_2").write_bytes(content)
    message = (
        r"data_batch_2 in .* 31035320 bytes with MD5 .*, expected d4bba439e000b95f"
    )
    with pytest.raises(UserError, match=message):
        from_cifar_files.load("cifar10", str(tmp_path))


def write_small(root, dataset, which, num=20):
    """Writes `num` images per file; returns their pixels, labels and the new table."""
    official = OFFICIAL[dataset]
    layout = official.layouts[which]
    kinds = list(layout.names)
    names = {kind: [f"{kind}{i}" for i in range(10)] for kind in kinds}
    random = np.random.RandomState(which)
    rows, contents = {}, {}
    for file in (*layout.train, *layout.test):
        rows[file] = random.randint(0, 256, (num, len(kinds) + 3072), np.uint8)
        rows[file][:, : len(kinds)] %= 10
        batch = {b"data": rows[file][:, len(kinds) :]}
        for i, kind in enumerate(kinds):
            batch[f"{kind}labels".encode()] = rows[file][:, i].tolist()
        contents[file] = rows[file].tobytes() if which else pickle.dumps(batch)
    encoded = {
        f"{kind}label_names".encode(): [name.encode() for name in names[kind]]
        for kind in kinds
    }
    for kind, file in layout.names.items():
        text = "\n".join(names[kind]) + "\n\n"
        contents[file] = text.encode() if which else pickle.dumps(encoded)
    folder = root / layout.folder
    folder.mkdir()
    for file, content in contents.items():
        (folder / file).write_bytes(content)
    measure = len if which else lambda content: hashlib.md5(content).hexdigest()
    expected = {file: measure(contents[file]) for file in layout.expected}
    layouts = list(official.layouts)
    layouts[which] = dataclasses.replace(layout, expected=expected)
    return rows, dataclasses.replace(official, layouts=tuple(layouts))


def make_archive(path, folder):
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, folder.name)
    return path


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A small CIFAR-10 in the binary layout; the table of lengths is made to fit."""
    rows, official = write_small(tmp_path, "cifar10", 1)
    monkeypatch.setitem(OFFICIAL, "cifar10", official)
    return tmp_path / "cifar-10-batches-bin", rows


@pytest.mark.parametrize("which", [0, 1], ids=["python", "binary"])
@pytest.mark.parametrize("name", from_cifar_files.NAMES)
def test_layouts_places_and_kinds(name, which, tmp_path, monkeypatch):
    dataset, kind = from_cifar_files.NAMES[name]
    rows, official = write_small(tmp_path, dataset, which)
    monkeypatch.setitem(OFFICIAL, dataset, official)
    layout = official.layouts[which]
    folder = tmp_path / layout.folder
    archive = make_archive(tmp_path / "any-name.tar.gz", folder)
    kinds = list(layout.names)
    wanted = np.concatenate([rows[file] for file in layout.train])
    for path in (folder, tmp_path, archive):
        train = from_cifar_files.load(name, str(path))["train"]
        np.testing.assert_array_equal(train.labels, wanted[:, kinds.index(kind)])
        red, green, blue = np.moveaxis(train.images, -1, 0).reshape(3, -1, 1024)
        np.testing.assert_array_equal(
            np.hstack([red, green, blue]), wanted[:, len(kinds) :]
        )
        assert train.class_names == tuple(f"{kind}{i}" for i in range(10))


def test_truncated_file(small):
    folder, _ = small
    with (folder / "data_batch_3.bin").open("r+b") as file:
        file.truncate(61_000)
    message = r"data_batch_3.bin in .* has a length of 61000 bytes, expected 61460"
    with pytest.raises(UserError, match=message):
        from_cifar_files.load("cifar10", str(folder))


def test_label_out_of_range(small):
    folder, rows = small
    rows["data_batch_2.bin"][5, 0] = 10
    rows["data_batch_2.bin"].tofile(folder / "data_batch_2.bin")
    with pytest.raises(UserError, match=r"example 25 is 10, but must be 0 to 9"):
        from_cifar_files.load("cifar10", str(folder))


def test_missing_file(small):
    folder, _ = small
    (folder / "test_batch.bin").unlink()
    with pytest.raises(
        UserError, match=r"lacks test_batch.bin of cifar-10-batches-bin"
    ):
        from_cifar_files.load("cifar10", str(folder.parent))


def test_other_folder_and_no_folder(tmp_path):
    with pytest.raises(UserError, match=r"neither cifar-10-batches-py nor cifar-10-b"):
        from_cifar_files.load("cifar10", str(tmp_path))
    with pytest.raises(
        UserError, match=r"nothing does not exist; give a folder or archive"
    ):
        from_cifar_files.load("cifar10", str(tmp_path / "nothing"))


def test_unknown_name():
    with pytest.raises(UserError, match=r"'cifar1000' \(did you mean \"cifar100"):
        from_cifar_files.load("cifar1000")


# ---- archives


@pytest.mark.parametrize("keep", [0.5, 0.0])
def test_truncated_archive(small, tmp_path, keep):
    archive = make_archive(tmp_path / "cifar-10-binary.tar.gz", small[0])
    length = int(keep * archive.stat().st_size)
    with archive.open("r+b") as file:
        file.truncate(length)
    message = rf"cut off .* has {length} bytes.*cifar-10-binary.tar.gz 170052171"
    with pytest.raises(UserError, match=message):
        from_cifar_files.load("cifar10", str(archive))


def test_flipped_byte_in_an_archive(small, tmp_path):
    archive = make_archive(tmp_path / "cifar-10-binary.tar.gz", small[0])
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(UserError, match=r"no readable archive|altered"):
        from_cifar_files.load("cifar10", str(archive))


def test_hostile_members_are_passed_over(small, tmp_path, monkeypatch):
    """Only files with the official names are read, and nothing is written."""
    folder, rows = small
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(61_460))
    target = tmp_path / "inside" / "deeper"
    target.mkdir(parents=True)
    monkeypatch.chdir(target)
    path = target / "hostile.tar"
    with tarfile.open(path, "w") as archive:
        for name in ("../escaped", str(tmp_path / "absolute"), "in_place"):
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"evil"))
        archive.add(folder, folder.name)
        # Links that have the name of an official file.
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            member = tarfile.TarInfo(f"{folder.name}/data_batch_1.bin")
            member.type, member.linkname = kind, str(secret)
            archive.addfile(member)
    before = sorted(tmp_path.rglob("*"))
    train = from_cifar_files.load("cifar10", str(path))["train"]
    assert sorted(tmp_path.rglob("*")) == before
    np.testing.assert_array_equal(train.labels[:20], rows["data_batch_1.bin"][:, 0])


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_malicious_pickle_is_not_run(tmp_path, monkeypatch):
    _, official = write_small(tmp_path, "cifar10", 0)
    folder = tmp_path / "cifar-10-batches-py"
    content = pickle.dumps(Evil(str(tmp_path / "executed")))
    (folder / "data_batch_1").write_bytes(content)
    monkeypatch.setitem(OFFICIAL, "cifar10", official)
    with pytest.raises(UserError, match=r"data_batch_1 in .* altered"):
        from_cifar_files.load("cifar10", str(folder))
    assert not (tmp_path / "executed").exists()
    pickle.loads(content)
    assert (tmp_path / "executed").exists(), "else there is nothing to refuse"


# ---- the cache folder


def test_without_download(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(
        UserError, match=r"download is False.*config\.data\.dir.*digits"
    ):
        from_cifar_files.load("cifar10", download=False)


def test_download_from_end_to_end(small, tmp_path, monkeypatch):
    folder, rows = small
    served = tmp_path / "served"
    served.mkdir()
    archive = make_archive(served / "cifar-10-python.tar.gz", folder)
    handler = functools.partial(QuietHandler, directory=str(served))
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with serving(handler) as server:
        url = f"{server.url}/{archive.name}"
        official = dataclasses.replace(OFFICIAL["cifar10"], url=url, md5=md5)
        monkeypatch.setitem(OFFICIAL, "cifar10", official)
        test = from_cifar_files.load("cifar10")["test"]
    np.testing.assert_array_equal(test.labels, rows["test_batch.bin"][:, 0])
    # From now on the host may be down.
    for download in (True, False):
        assert len(from_cifar_files.load("cifar10", download=download)["test"]) == 20


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder without writing a log."""

    def log_message(self, *args):
        pass


def header(kind, size):
    member = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "kind, size, number, words",
    [
        (tarfile.XHDTYPE, 1 << 28, 1, "a header of more than 160,000,000 bytes"),
        (tarfile.GNUTYPE_LONGNAME, 1 << 28, 1, "a header of more than 160,000,000"),
        (tarfile.REGTYPE, 1 << 28, 1, "has a member .* more than any official file"),
        (tarfile.XHDTYPE, 0, 5000, "no readable archive"),
        (tarfile.GNUTYPE_LONGNAME, 512, 5000, "no readable archive"),
    ],
)
def test_headers_that_take_all_memory_are_refused(kind, size, number, words, tmp_path):
    path = tmp_path / "cifar.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(number):
            file.write(header(kind, size))
            for _ in range(0, size, 1 << 20):
                file.write(bytes(min(size, 1 << 20)))
    with pytest.raises(UserError, match=words):
        from_cifar_files.read_records(path, "cifar10")
