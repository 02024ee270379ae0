"""A lock on a file, which the kernel frees when its process ends, however it ends.

The library filelock takes the same lock, but it records no owner, whom the refusal
names, and it raises on a network disk without locks, where a warning is enough here.
"""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import platform
import time
import warnings
from collections.abc import Iterator
from typing import TextIO

from vit_jax.errors import UserError


@contextlib.contextmanager
def lock(path: pathlib.Path) -> Iterator[None]:
    """Context in which no other process, nor this one again, can lock `path`.

    The file stays behind, with the process id, host and start of its last owner. Where
    the file system knows no locks there is a warning instead.

    Raises:
      UserError: it is locked, and by whom; or it cannot be written.
    """
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}); give another --workdir."
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # the latter from network disks
            raise UserError(
                f"{path.parent} is in use by {_describe_owner(file)}; wait until that "
                "training ends, or give another --workdir."
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
            warnings.warn(
                f"{path.parent} cannot be locked ({error.strerror}); see to it that no "
                "other training uses it.",
                stacklevel=3,
            )
        _write_owner(file, path)
        yield


def _write_owner(file: TextIO, path: pathlib.Path) -> None:
    owner = {
        "process": os.getpid(),
        "host": platform.node(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    try:
        file.truncate(0)
        file.write(json.dumps(owner) + "\n")
        file.flush()
        os.fsync(file.fileno())  # other hosts may read it next
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}); make room and rerun the "
            "same command."
        ) from None


def _describe_owner(file: TextIO) -> str:
    file.seek(0)
    try:
        owner = json.load(file)
        return "process {process} on {host} since {started}".format(**owner)
    except (ValueError, LookupError, TypeError):  # it has not written that yet
        return "another process"
