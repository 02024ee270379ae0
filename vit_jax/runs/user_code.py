"""A user's own models, data sources and augmentations.

A file of code is run only after its user has named it. The SHA-256 of every named file
is kept in the user's cache folder, so that a run of one's own loads without a question,
and a folder of unknown origin cannot run code.
"""

import contextlib
import hashlib
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from vit_jax import augment, data, models
from vit_jax.config.files import run_file
from vit_jax.errors import UserError
from vit_jax.files import cache_folder, is_private, make_cache_folder, user_path

# Name in the user's file -> the table of the package that it joins.
_TABLES: dict[str, dict[str, Any]] = {
    "MODELS": models.MODELS,
    "SOURCES": data.SOURCES,
    "AUGMENTATIONS": augment.AUGMENTATIONS,
}
# Of each table, the names that the package itself gives.
_OWN = {name: frozenset(table) for name, table in _TABLES.items()}
# SHA-256 of the files that were named to this process.
_NAMED: set[str] = set()


@contextlib.contextmanager
def own_tables() -> Iterator[None]:
    """Takes back what is added to the tables meanwhile.

    A second run that is loaded, such as a teacher, may give its own code the names that
    the first one's has.
    """
    before = {name: dict(table) for name, table in _TABLES.items()}
    try:
        yield
    finally:
        for name, table in _TABLES.items():
            table.clear()
            table.update(before[name])


def add_code_of_run(path: str, sha256: str) -> None:
    """`add_user_code` of a saved config, if that file was named on this machine before.

    Args:
      path, sha256: the config's `code` and `code_sha256`.

    Raises:
      UserError: it was not, or has changed since the training; or as `add_user_code`
        does.
    """
    if path and digest(path) != sha256:
        raise UserError(
            f"{path} has other code than the run was trained with; give it its former "
            f"content back (SHA-256 {sha256 or 'not stored'}), and write a new version "
            "into a new file."
        )
    if path and sha256 not in _named():
        raise UserError(
            f"The run needs the code of {path}, which no command has named on this "
            "machine, so it is not run; read it, and if you trust it, name it once: "
            "python -m vit_jax.main --list_keys --config=vit_digits "
            f"--config.code={path}"
        )
    add_user_code(path)


def digest(path: str) -> str:
    """SHA-256 of the file that config.code names; "" for ""."""
    return path and hashlib.sha256(_find(path).read_bytes()).hexdigest()


def _list_of_named() -> pathlib.Path:
    return cache_folder() / "named_code.txt"


def _named() -> set[str]:
    """SHA-256 of all files that were named, to this process or on this machine."""
    with contextlib.suppress(OSError, UnicodeDecodeError, UserError):
        # In a folder of others, they may have written into it.
        if is_private(cache_folder()) and is_private(_list_of_named()):
            return _NAMED | set(_list_of_named().read_text(encoding="ascii").split())
    return _NAMED


def _remember(digest: str) -> None:
    if digest in _named():
        return
    _NAMED.add(digest)
    # Without a cache folder the file has to be named in each process.
    with contextlib.suppress(OSError, UserError):
        make_cache_folder()
        with _list_of_named().open("a", encoding="ascii") as file:
            file.write(digest + "\n")
        _list_of_named().chmod(0o600)


def absolute_code(path: str) -> str:
    """The path of config.code from any folder; "" stays ""."""
    return path and str(user_path(path).absolute())


def _find(path: str) -> pathlib.Path:
    file = pathlib.Path(absolute_code(path))
    if not file.is_file() or file.suffix != ".py":
        raise UserError(
            f"config.code is {path}, but there is no such Python file (.py); give the "
            "path of the one that has the model, data source or augmentation."
        )
    return file


def add_user_code(path: str) -> None:
    """Runs the file that config.code names, and adds what it has in its tables.

        MODELS = {"small_net": SmallNet}      # a linen module, or a partial of one
        SOURCES = {"blobs": load_blobs}       # (config.data) -> {"train", "test"}
        AUGMENTATIONS = {"invert": invert}    # (key, image) -> image

    A second file, or the same one again, may replace what an earlier one added.

    Args:
      path: of the file, as the user has given it; "": nothing is done.

    Raises:
      UserError: there is no such file, its code fails, it has none of the tables, or a
        name is taken by the package.
    """
    if not path:
        return
    file = _find(path)
    _remember(digest(path))
    module = run_file(path, file)
    added = {name: getattr(module, name, None) for name in _TABLES}
    if not any(added.values()):
        raise UserError(
            f"{path} has none of {', '.join(_TABLES)}, with which it would add to the "
            'package; write for example MODELS = {"small_net": SmallNet}.'
        )
    for name, entries in added.items():
        _check(path, name, entries or {})
        _TABLES[name].update(entries or {})


def _check(path: str, table: str, entries: Any) -> None:
    if not isinstance(entries, Mapping) or not all(map(callable, entries.values())):
        raise UserError(
            f"{table} in {path} is {entries!r}, but must be a dictionary from names to "
            "classes or functions."
        )
    for name in entries:
        if name in _OWN[table]:
            raise UserError(
                f'{table} in {path} has "{name}", which the package has already; take '
                "another name."
            )
