"""Small files: written whole or not at all, never through a link, read with limits.

A folder may come from a stranger. A file that is written here is written beside its
place and renamed, so that neither a link in that place nor what it leads to changes,
and an interruption leaves the old content.

A JSON file or line holds the SHA-256 of its content, without which most single bits
that flip leave another valid file. One that has none, of an older version or written
by hand, is taken as it is.
"""

import contextlib
import errno
import hashlib
import itertools
import json
import math
import os
import pathlib
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from vit_jax.errors import UserError, show

_KEY = "content_sha256"
MAX_JSON_BYTES = 1 << 28
_MAX_DEPTH = 20


def cache_folder() -> pathlib.Path:
    """The user's folder for files that can be made again.

    It is $XDG_CACHE_HOME/vit_jax, or ~/.cache/vit_jax.

    Raises:
      UserError: the user has no home folder, and XDG_CACHE_HOME is not set.
    """
    try:
        root = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    except RuntimeError:
        raise UserError(
            "There is no home folder to keep files in; set the environment variable "
            "XDG_CACHE_HOME to a folder of yours."
        ) from None
    return pathlib.Path(root) / "vit_jax"


def make_cache_folder() -> pathlib.Path:
    """Creates `cache_folder`, for its user alone, since what lies in it may be run.

    Raises:
      UserError: as `cache_folder`.
      OSError: it cannot be created.
    """
    cache_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    return cache_folder()


def is_private(path: pathlib.Path) -> bool:
    """Whether nobody but the user can write to a file or folder; it must exist."""
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def user_path(path: str | os.PathLike) -> pathlib.Path:
    """The path, with ~ and ~NAME as home folders; raises UserError if NAME has none."""
    # pathlib would take "./~" for "~".
    found = os.path.expanduser(os.fspath(path))
    if found.startswith("~"):
        raise UserError(
            f"{show(found)} begins with a user who has no home folder here; write the "
            "whole path, or ./~ for a name that begins so."
        )
    is_own = found.startswith(f".{os.sep}~")
    return pathlib.Path(found).absolute() if is_own else pathlib.Path(found)


def make_folder(folder: pathlib.Path, option: str) -> None:
    """Creates a folder, or raises UserError if it cannot be written to; `option` is the
    flag that names it, such as "--out"."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(
            f"The folder {folder} cannot be written to ({error.strerror}); give "
            f"another {option}."
        ) from None


def refuse_links(folder: pathlib.Path, names: Iterable[str]) -> None:
    """Refuses folders through which a write would leave `folder`.

    Args:
      folder: may be a link itself, since its user has named it.
      names: of the folders in it that are written to, with all below them.

    Raises:
      UserError: one of them is a link, or holds one, that leads out of `folder`.
    """
    root = os.path.realpath(folder)
    for top in (folder / name for name in names):
        # In Python 3.11 Path.rglob fails where a folder is removed meanwhile.
        found = (
            pathlib.Path(parent, name)
            for parent, folders, files in os.walk(top)
            for name in (*folders, *files)
        )
        for path in itertools.chain([top], found):
            target = os.path.realpath(path)
            if path.is_symlink() and os.path.commonpath([root, target]) != root:
                raise UserError(
                    f"{path} is a symbolic link to {target}, so that files outside of "
                    f"{folder} could be overwritten; replace it by what it leads to, "
                    "or remove it."
                )


def write_file(path: pathlib.Path, *content: str | bytes | memoryview) -> None:
    """Replaces a file atomically: a reader sees the old or the new content.

    Args:
      content: its parts in order. Text is written as UTF-8, in which undecodable bytes
        of file names are escaped.

    Raises:
      UserError: the disk is full, or the folder cannot be written to.
    """
    # Processes in other containers may have the same number.
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    with report_failure(path):
        try:
            with temporary.open("xb") as file:  # "x" does not follow a link
                for part in content:
                    if isinstance(part, str):
                        part = part.encode(errors="backslashreplace")
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def open_to_append(path: pathlib.Path) -> BinaryIO:
    """Opens a file to read it and to append to it; creates it if it is missing.

    Raises:
      OSError: it cannot be written to, or it is a link, a device or the like.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o666)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no file of its own, but a link or a device")
    return os.fdopen(descriptor, "a+b")


def read_file(path: pathlib.Path, max_bytes: int) -> bytes:
    """The content of an ordinary file.

    Raises:
      FileNotFoundError, NotADirectoryError: there is no such file.
      UserError: it cannot be read; or it is a folder, a pipe or a device, which could
        block; or it is larger than `max_bytes`.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size <= max_bytes:
                return file.read(max_bytes)
    except IsADirectoryError:
        pass
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from None
    raise UserError(
        f"{path} is no ordinary file of at most {max_bytes:,} bytes; restore it from a "
        "copy."
    )


@contextlib.contextmanager
def report_failure(path: pathlib.Path) -> Iterator[None]:
    """A context that turns an OSError of writing `path` into a UserError."""
    try:
        yield
    except OSError as error:
        place = next((p for p in path.absolute().parents if os.path.isdir(p)), None)
        free = f", {shutil.disk_usage(place).free:,} bytes are free" if place else ""
        raise UserError(
            f"{path} cannot be written ({error.strerror}{free}); make room or mend "
            "that, and rerun the same command."
        ) from error


def is_full(error: BaseException | None) -> bool:
    """Whether a full disk or quota is the cause; TensorStore only says so as text."""
    numbers = (errno.ENOSPC, errno.EDQUOT)
    while error is not None:
        if isinstance(error, OSError) and error.errno in numbers:
            return True
        if any(os.strerror(number) in str(error) for number in numbers):
            return True
        error = error.__cause__ or error.__context__
    return False


def as_json(content: Any) -> Any:
    """The content as JSON gives it back; NaN and infinity become None."""
    if isinstance(content, dict):
        return {str(key): as_json(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [as_json(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content


def hashed(content: dict[str, Any]) -> dict[str, Any]:
    """The content as JSON, with its SHA-256 as the last key."""
    content = as_json(content)
    return content | {_KEY: _digest(content)}


def write_json(path: pathlib.Path, content: dict[str, Any]) -> None:
    """Replaces a file atomically; raises as `write_file` does."""
    write_file(path, json.dumps(hashed(content), indent=2) + "\n")


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """The content of a file that `write_json` wrote, or of any object in JSON.

    Raises:
      FileNotFoundError, NotADirectoryError: there is no such file.
      UserError: the file is damaged, too large, or holds something else.
    """
    data = read_file(path, MAX_JSON_BYTES)
    try:
        return parse_json(data)
    except ValueError as error:
        raise UserError(
            f"{path} is damaged: {error}; restore it from a copy."
        ) from None


def parse_json(text: bytes) -> dict[str, Any]:
    """The object that a text in JSON holds, without its SHA-256.

    Raises:
      ValueError: the text is no object in JSON, nested too deeply, or was changed.
    """
    try:
        content = json.loads(text)
        is_deep = _is_deep(content)
    except RecursionError:
        is_deep = True
    if is_deep:
        raise ValueError("it is nested too deeply")
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object, {...}")
    digest = content.pop(_KEY, None)
    if digest is not None and digest != _digest(content):
        raise ValueError(f'it differs from its SHA-256, which it has as "{_KEY}"')
    return content


def _is_deep(content: Any) -> bool:
    """Whether more than _MAX_DEPTH objects and lists lie in each other."""
    level = [content]
    for _ in range(_MAX_DEPTH + 1):
        containers = [one for one in level if isinstance(one, dict | list)]
        level = [
            value
            for one in containers
            for value in (one.values() if isinstance(one, dict) else one)
        ]
    return bool(containers)


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
