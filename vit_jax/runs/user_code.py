"""A user's own models, data sources and augmentations."""

import pathlib
from collections.abc import Mapping
from typing import Any

from vit_jax import augment, data, models
from vit_jax.config.files import run_file
from vit_jax.errors import UserError

# Name in the user's file -> the table of the package that it joins.
_TABLES: dict[str, dict[str, Any]] = {
    "MODELS": models.MODELS,
    "SOURCES": data.SOURCES,
    "AUGMENTATIONS": augment.AUGMENTATIONS,
}
# Of each table, the names that the package itself gives.
_OWN = {name: frozenset(table) for name, table in _TABLES.items()}


def add_user_code(path: str) -> None:
    """Runs the file that config.code names, and adds what it has in its tables.

        MODELS = {"small_net": SmallNet}      # a linen module, or a partial of one
        SOURCES = {"blobs": load_blobs}       # (config.data) -> {"train", "test"}
        AUGMENTATIONS = {"invert": invert}    # (key, image) -> image

    A second file, or the same one again, may replace what an earlier one added.

    Args:
      path: of the file; "": nothing is done.

    Raises:
      UserError: there is no such file, its code fails, it has none of the tables, or a
        name is taken by the package.
    """
    if not path:
        return
    file = pathlib.Path(path).expanduser().absolute()
    if not file.is_file():
        raise UserError(
            f"config.code is {path}, but there is no such file; give the path of the "
            "Python file that has the model, data source or augmentation."
        )
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
