"""A lock on a file, which the kernel releases when its process ends in any way.

The library filelock takes the same lock, but it does not record the owner, which the
error message names, and it raises on network disks without locks, where a warning is
enough here.
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
from typing import BinaryIO

from vit_jax.errors import UserError
from vit_jax.files import open_to_append, report_failure


@contextlib.contextmanager
def lock(
    path: pathlib.Path, what: pathlib.Path | None = None, option: str = "--workdir"
) -> Iterator[None]:
    """Context in which neither another process nor this one can lock `path` again.

    The file remains, with the process id, host and start of its last owner. A file
    system without locks causes a warning only.

    Args:
      what: is locked by it, for messages; None: the folder of `path`.
      option: of the command, that names what is locked.

    Raises:
      UserError: it is locked (the message names the owner), or it cannot be written.
    """
    what = what or path.parent
    try:
        file = open_to_append(path)
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}); give another {option}."
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # the second on network disks
            raise UserError(
                f"{what} is in use by {_describe_owner(file)}; wait until that "
                f"training ends, or give another {option}."
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
            warnings.warn(
                f"{what} cannot be locked ({error.strerror}); see to it that no "
                "other training uses it.",
                stacklevel=3,
            )
        _write_owner(file, path)
        yield


def _write_owner(file: BinaryIO, path: pathlib.Path) -> None:
    owner = {
        "process": os.getpid(),
        "host": platform.node(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    with report_failure(path):
        file.truncate(0)
        file.write(json.dumps(owner).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())  # so that other hosts can read it


def _describe_owner(file: BinaryIO) -> str:
    file.seek(0)
    try:
        owner = json.load(file)
        return "process {process} on {host} since {started}".format(**owner)
    except (ValueError, LookupError, TypeError):  # the owner has not written it yet
        return "another process"
