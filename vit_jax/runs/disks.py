"""Checks that a folder can be written to, and that a disk is full."""

import errno
import os
import pathlib
import tempfile

from vit_jax.errors import UserError


def make_folder(folder: pathlib.Path, option: str) -> None:
    """Creates a folder and checks that it can be written to.

    Raises:
      UserError: it cannot; `option` is the flag that names it, such as "--out".
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(
            f"The folder {folder} cannot be written to ({error.strerror}); give "
            f"another {option}."
        ) from None


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
