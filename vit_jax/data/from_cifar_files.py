"""CIFAR-10 and CIFAR-100 from the official files: a folder, archive or download."""

import contextlib
import gzip
import hashlib
import io
import pathlib
import pickle
import tarfile
import warnings
import zlib
from typing import Any

import numpy as np
from jaxtyping import UInt8

from vit_jax.data.cifar_layouts import ARCHIVE_LENGTHS, OFFICIAL, Layout
from vit_jax.data.dataset import Dataset
from vit_jax.data.download import OFFLINE, fetch
from vit_jax.errors import UserError, require_known
from vit_jax.files import cache_folder, make_cache_folder, user_path

# For each config.data.name, the dataset and the kind of label that is learned.
NAMES = {
    "cifar10": ("cifar10", ""),
    "cifar100": ("cifar100", "fine_"),
    "cifar100_coarse": ("cifar100", "coarse_"),
}
_PIXEL_BYTES = 3 * 32 * 32
_MAX_MEMBER_BYTES = 160_000_000  # the largest official file has 155 MB
# What `tarfile` raises for archives with damaged headers.
_DAMAGED = (tarfile.TarError, EOFError, OSError, ValueError, RecursionError)


def load(name: str, path: str = "", *, download: bool = True) -> dict[str, Dataset]:
    """The "train" and "test" splits, in the official order.

    Args:
      name: "cifar10", "cifar100" (100 fine classes) or "cifar100_coarse" (20).
      path: the folder with the files, its parent, or a tar archive of it, in the python
        or the binary layout; "": the official archive in the cache folder.
      download: whether that archive may be downloaded if it is missing.

    Raises:
      UserError: the name or path is unknown, a file is missing, cut off or altered (the
        message says what was expected and found), or the download failed.
    """
    what, where = "dataset of cifar_files", "config.data.name must be"
    require_known(name, NAMES, what, where)
    dataset, kind = NAMES[name]
    source = user_path(path) if path else find_archive(dataset, download)
    splits, class_names = read_records(source, dataset)
    kinds = list(class_names)
    return {
        split: Dataset(
            _to_images(rows[:, len(kinds) :]),
            rows[:, kinds.index(kind)].astype(np.int32),
            class_names[kind],
        )
        for split, rows in splits.items()
    }


def find_archive(dataset: str, download: bool) -> pathlib.Path:
    """The official archive of "cifar10" or "cifar100" in the cache folder.

    Raises:
      UserError: it is missing, and `download` is False or fails.
    """
    official = OFFICIAL[dataset]
    archive = cache_folder() / official.url.rpartition("/")[2]
    if download:
        with contextlib.suppress(OSError):  # which `fetch` explains
            make_cache_folder()
        return fetch(official.url, official.md5, archive.parent)
    if not archive.is_file():
        raise UserError(
            f"{archive} is missing and config.data.download is False; allow the "
            f"download, or, {OFFLINE}."
        )
    return archive


def read_records(
    path: pathlib.Path, dataset: str
) -> tuple[dict[str, UInt8[np.ndarray, "n bytes"]], dict[str, tuple[str, ...]]]:
    """Reads and checks all records of "cifar10" or "cifar100" in a folder or archive.

    Returns:
      The splits "train" and "test" in the form of the binary layout: each row has label
      bytes, then 3072 pixel bytes. And the class names for each kind of label, in the
      order of the label bytes.

    Raises:
      UserError: as for `load`.
    """
    layouts = OFFICIAL[dataset].layouts
    if path.is_dir():
        found = _find_files(path, layouts)
    elif path.is_file():
        found = _read_archive(path, layouts)
    else:
        raise UserError(
            f"{path} does not exist; give a folder or archive of {dataset}."
        )
    # Of two that are complete, the first one is better.
    layout = max(layouts, key=lambda x: len(found[x.folder]) / len(x.files))
    contents = found[layout.folder]
    if lacking := ", ".join(sorted(layout.files - contents.keys())):
        folders = " nor ".join(layout.folder for layout in layouts)
        raise UserError(
            f"{path} lacks {lacking} of {layout.folder}; fetch it again."
            if contents
            else f"{path} holds neither {folders}; give that folder, its parent or its "
            "archive."
        )
    if path.is_dir():
        contents = {name: file.read_bytes() for name, file in contents.items()}
    for file, expected in layout.expected.items():
        _check(path, file, contents[file], expected)
    splits = {"train": layout.train, "test": layout.test}
    return (
        {
            name: np.concatenate([_rows(contents[file], layout) for file in files])
            for name, files in splits.items()
        },
        {
            kind: _names(contents[file], kind, layout)
            for kind, file in layout.names.items()
        },
    )


def holds_files(path: pathlib.Path, dataset: str) -> bool:
    """Whether official files of "cifar10" or "cifar100" lie in a folder or below it."""
    return any(_find_files(path, OFFICIAL[dataset].layouts).values())


def _find_files(
    path: pathlib.Path, layouts: tuple[Layout, ...]
) -> dict[str, dict[str, pathlib.Path]]:
    """For the folder of each layout, the files that are there, or in `path` itself."""
    return {
        layout.folder: max(
            (
                {name: root / name for name in layout.files if (root / name).is_file()}
                for root in (path, path / layout.folder)
            ),
            key=len,
        )
        for layout in layouts
    }


def _read_archive(
    path: pathlib.Path, layouts: tuple[Layout, ...]
) -> dict[str, dict[str, bytes]]:
    """The same from an archive, in memory; no file is extracted to disk."""
    contents = {layout.folder: {} for layout in layouts}
    wanted = {
        f"{layout.folder}/{name}": (layout.folder, name)
        for layout in layouts
        for name in layout.files
    }
    try:
        with (
            _decompress(path) as content,
            _Limited(content, path) as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            for member in tar:
                stream.start_member()
                place = wanted.get(member.name.removeprefix("./"))
                # A link could refer to any file of this machine.
                if place and member.isreg():
                    folder, name = place
                    contents[folder][name] = tar.extractfile(member).read()
                    stream.start_member()
            while stream.read(1 << 20):  # gzip checks its sum only at the end.
                pass
    except (*_DAMAGED, zlib.error) as error:
        lengths = ", ".join(f"{name} {size}" for name, size in ARCHIVE_LENGTHS.items())
        raise UserError(
            f"{path} is no readable archive or is cut off ({error}): it has "
            f"{path.stat().st_size} bytes, the official archives have {lengths}; "
            "download it again."
        ) from error
    return contents


class _Limited(io.RawIOBase):
    """What an archive holds, as long as no member is larger than an official file.

    A member here is everything that is read for it, so that the headers before it, of
    which `tarfile` reads any size into memory, count as well.
    """

    def __init__(self, content: io.BufferedIOBase, path: pathlib.Path):
        super().__init__()
        self._content, self._path, self._read = content, path, 0

    def start_member(self) -> None:
        """Counts from here on."""
        self._read = 0

    def read(self, size: int = -1) -> bytes:
        data = self._content.read(size)
        self._read += len(data)
        if self._read > _MAX_MEMBER_BYTES:
            raise UserError(
                f"{self._path} has a member or a header of more than "
                f"{_MAX_MEMBER_BYTES:,} bytes, more than any official file; fetch the "
                "official archive."
            )
        return data


def _decompress(path: pathlib.Path) -> io.BufferedIOBase:
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if compressed else path.open("rb")


def _check(path: pathlib.Path, file: str, content: bytes, expected: str | int) -> None:
    if isinstance(expected, int):
        kind, found = "a length of {} bytes", len(content)
    else:
        kind = f"{len(content)} bytes with MD5 {{}}"
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise UserError(
            f"{file} in {path} has {kind.format(found)}, expected {expected}; it is "
            "cut off or altered: fetch it again."
        )


def _rows(content: bytes, layout: Layout) -> UInt8[np.ndarray, "n bytes"]:
    if layout.is_binary:
        rows = np.frombuffer(content, np.uint8)
        return rows.reshape(-1, len(layout.names) + _PIXEL_BYTES)
    batch = _unpickle(content)
    labels = [batch[f"{kind}labels".encode()] for kind in layout.names]
    return np.concatenate([np.array(labels, np.uint8).T, batch[b"data"]], axis=1)


def _names(content: bytes, kind: str, layout: Layout) -> tuple[str, ...]:
    if layout.is_binary:
        return tuple(content.decode().split())
    names = _unpickle(content)[f"{kind}label_names".encode()]
    return tuple(name.decode() for name in names)


def _unpickle(content: bytes) -> Any:
    """The object in an official file; no other file has the MD5 that was checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns about files this old.
        return pickle.loads(content, encoding="bytes")


def _to_images(pixels: UInt8[np.ndarray, "n 3072"]) -> UInt8[np.ndarray, "n 32 32 3"]:
    planes = pixels.reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
