"""Many image files in one array, which is kept in a file when it is large.

Arrays above `MAX_MEMORY_BYTES` are written to the user's cache folder and mapped into
memory from there, so that the next start need not decode again and only the pages that
are read take memory. An entry, folders/KEY/, has images.npy and index.json. KEY is a
hash of the names, sizes and times of the image files, so that changed files make a new
entry; old entries are not removed.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import itertools
import json
import logging
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence

import numpy as np
import PIL
from tqdm import tqdm

from vit_jax.data.image_files import UnreadableImageError, read_image
from vit_jax.errors import UserError
from vit_jax.files import cache_folder, hashed, make_cache_folder, read_json

_LOGGER = logging.getLogger(__name__)

MAX_MEMORY_BYTES = 1 << 30
_BLOCK = 256  # Files that are decoded ahead at most.
_VERSION = 2  # Version of the form of an entry.


@dataclasses.dataclass(frozen=True)
class Decoded:
    """The readable images among some files.

    Attributes:
      images: uint8 [n, height, width, 3]; a read-only memory map if large.
      kept: the index of each image's file.
      modes: the number of files in each of Pillow's modes.
      skipped: for each unreadable file, a text that says why.
    """

    images: np.ndarray
    kept: list[int]
    modes: collections.Counter
    skipped: list[str]


def decode_files(
    files: Sequence[pathlib.Path],
    *,
    root: pathlib.Path,
    image_size: int | None,
) -> Decoded:
    """Decodes all readable files below `root`, in order, by `image_files.read_image`.

    Raises:
      UserError: images have different sizes, one is too large, or the disk is full.
    """
    entry = cache_folder() / "folders" / _key(files, root, image_size)
    if entry.exists():
        return _map(entry)
    result = Decoded(np.empty((0, 1, 1, 3), np.uint8), [], collections.Counter(), [])
    stream = _read_all(files, root, image_size, result)
    first = next(stream, None)
    if first is None:
        return result
    shape, stream = (len(files), *first.shape), itertools.chain([first], stream)
    if len(files) * first.nbytes > MAX_MEMORY_BYTES:
        _write(entry, shape, stream, result)
        return _map(entry)
    images = np.empty(shape, np.uint8)
    for i, image in enumerate(stream):
        images[i] = image
    return dataclasses.replace(result, images=images[: len(result.kept)])


def _key(
    files: Sequence[pathlib.Path], root: pathlib.Path, image_size: int | None
) -> str:
    about = (_VERSION, PIL.__version__, image_size, str(root.resolve()))
    digest = hashlib.sha256(repr(about).encode())
    for file in files:
        status, name = file.stat(), file.relative_to(root).as_posix()
        digest.update(repr((name, status.st_size, status.st_mtime_ns)).encode())
    return digest.hexdigest()


def _read_all(
    files: Sequence[pathlib.Path],
    root: pathlib.Path,
    image_size: int | None,
    result: Decoded,
) -> Iterator[np.ndarray]:
    """Yields the readable images in order; fills in `kept`, `modes` and `skipped`."""

    def read(file):
        try:
            return read_image(file, image_size)
        except UnreadableImageError as error:
            return error

    shape = None
    with (
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool,
        tqdm(total=len(files), desc=f"Reading {root}", disable=None) as progress,
    ):
        for start in range(0, len(files), _BLOCK):
            block = files[start : start + _BLOCK]
            for index, found in enumerate(pool.map(read, block), start):
                progress.update()
                if isinstance(found, UnreadableImageError):
                    result.skipped.append(str(found))
                    continue
                image, mode = found
                shape = shape or image.shape
                if image.shape != shape:
                    raise UserError(
                        f"{files[index]} has shape {list(image.shape)}, but "
                        f"{files[result.kept[0]]} has {list(shape)}; set "
                        "config.data.image_size to resize all."
                    )
                result.kept.append(index)
                result.modes[mode] += 1
                yield image


def _write(
    entry: pathlib.Path,
    shape: tuple[int, ...],
    images: Iterator[np.ndarray],
    result: Decoded,
) -> None:
    """Writes the entry under a temporary name and renames it once it is complete."""
    num_bytes = int(np.prod(shape))
    parent = entry.parent
    temporary = entry.with_name(f".{entry.name}.{os.getpid()}")
    try:
        make_cache_folder()
        parent.mkdir(mode=0o700, exist_ok=True)
        _remove_left_behind(entry)
        if shutil.disk_usage(parent).free < num_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        temporary.mkdir(mode=0o700)
        with (temporary / "images.npy").open("wb") as file:
            with contextlib.suppress(OSError):  # on disks without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            # A full disk is an error of `write`; with a memory map it is a signal.
            header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            end = file.tell() + num_bytes
            for image in images:
                file.write(np.ascontiguousarray(image))
            file.truncate(end)  # Where files were skipped, the last rows are empty.
            file.flush()
            os.fsync(file.fileno())
        index = {
            "kept": result.kept, "modes": result.modes, "skipped": result.skipped,
        }  # fmt: skip
        # Nobody else knows this folder, so there is nothing to replace.
        text = json.dumps(hashed(index), indent=2) + "\n"
        (temporary / "index.json").write_text(text, encoding="utf-8")
        try:
            temporary.rename(entry)
        except OSError:
            if not entry.exists():  # Else another process was faster.
                raise
        _LOGGER.warning(
            "The decoded images of this folder are in %s (%s bytes); remove it when "
            "they are no longer needed.", entry, f"{num_bytes:,}",
        )  # fmt: skip
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        place = parent if parent.exists() else cache_folder().anchor
        raise UserError(
            f"{parent} cannot hold the decoded images ({error.strerror}): they need "
            f"{num_bytes:,} bytes and {shutil.disk_usage(place).free:,} are free; make "
            "room or set the environment variable XDG_CACHE_HOME to another disk."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_left_behind(entry: pathlib.Path) -> None:
    """Removes what processes that were killed or interrupted wrote for this entry."""
    for path in entry.parent.glob(f".{entry.name}.*"):
        # A process that still writes holds a lock on its file.
        with contextlib.suppress(OSError), (path / "images.npy").open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)


def _map(entry: pathlib.Path) -> Decoded:
    try:
        index = read_json(entry / "index.json")
        return Decoded(
            np.load(entry / "images.npy", mmap_mode="r")[: len(index["kept"])],
            index["kept"],
            collections.Counter(index["modes"]),
            index["skipped"],
        )
    except (OSError, ValueError, KeyError, UserError) as error:
        raise UserError(
            f"The decoded images in {entry} are damaged ({error}); remove that folder, "
            "and they will be decoded again."
        ) from error
