"""Verification of a checkpoint: its files as saved, and its arrays as expected.

Orbax 0.12 restores flipped bits silently, and casts to the dtype that is requested.
Therefore every checkpoint has a manifest with the SHA-256 of its files. It is written
inside Orbax's temporary folder, before the rename that commits the checkpoint, so that
a killed process cannot leave a checkpoint without its manifest.
"""

import hashlib
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, BinaryIO

import jax

from vit_jax.errors import UserError, shorten
from vit_jax.files import read_file, write_file

_NAME = "manifest.json"
_METADATA = "_METADATA"  # Orbax's
_MAX_BYTES = 1 << 24  # of some dozen lines


def write_manifest(folder: pathlib.Path) -> None:
    """Hashes every file below `folder` and flushes all of it to the disk."""
    digests = {}
    for name, path in sorted(_files(folder).items()):
        with path.open("rb") as file:
            digests[name] = _sha256(file)
            os.fsync(file.fileno())  # a power cut could empty a file without this
    write_file(folder / _NAME, json.dumps({"sha256": digests}, indent=1))


def digest(folder: pathlib.Path) -> str:
    """SHA-256 of the manifest of a checkpoint, and with it of every file there."""
    return hashlib.sha256((folder / _NAME).read_bytes()).hexdigest()


def verify(folder: pathlib.Path) -> None:
    """Compares what is below `folder` with its manifest.

    Orbax opens files there by names of its own, and a pipe among them would block it.
    Therefore nothing but folders and files may be there, listed or not (Orbax adds a
    mark to what it has committed), and its metadata must be listed.

    Raises:
      UserError: a file or the manifest is missing, unreadable or different, or there is
        something else than folders and files, as the message says.
    """
    # Only files found below the folder are opened, whatever the manifest names.
    present = _files(folder)
    try:
        digests = dict(json.loads(read_file(present[_NAME], _MAX_BYTES))["sha256"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, UserError):
        raise UserError(f"{folder / _NAME} is missing or cannot be read") from None
    if _METADATA not in digests:
        raise UserError(f"{folder / _NAME} does not list {_METADATA}")
    for path in folder.rglob("*"):
        # A link to a folder is refused: what lies behind it is not verified.
        if not path.is_file() and (path.is_symlink() or not path.is_dir()):
            raise UserError(f"{path} is neither a folder nor a file")
    for name, digest in digests.items():
        if name not in present:
            raise UserError(f"{folder / name} is missing")
        try:
            with present[name].open("rb") as file:
                intact = _sha256(file) == digest
        except OSError as error:
            raise UserError(f"{folder / name} cannot be read ({error})") from error
        if not intact:
            raise UserError(f"{folder / name} differs from its SHA-256")


def named_leaves(tree: Any) -> dict[str, Any]:
    """Leaves by name, as "params/head/kernel"; None and empty nodes have none."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    named = {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in leaves
    }
    if len(named) < len(leaves):
        raise ValueError("two leaves of the state have the same name")
    return named


def differences(saved: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """The arrays that are missing, unexpected or of another shape or dtype; else ''."""

    def describe(leaf: Any) -> str:
        return f"{leaf.dtype}{list(leaf.shape)}"

    parts = {
        "missing": expected.keys() - saved.keys(),
        "not expected": saved.keys() - expected.keys(),
        "different": {
            f"{name} is {describe(saved[name])} instead of {describe(expected[name])}"
            for name in saved.keys() & expected.keys()
            if describe(saved[name]) != describe(expected[name])
        },
    }
    return "; ".join(
        f"{label}: {shorten(sorted(names), 5)}"
        for label, names in parts.items()
        if names
    )


def _files(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    return {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_file()
    }


def _sha256(file: BinaryIO) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()
