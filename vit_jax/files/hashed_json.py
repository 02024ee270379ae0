"""JSON files and lines with the SHA-256 of their content, as "content_sha256".

Without it most single bits that flip in a file of settings leave another valid file. A
file or line that has none, of an older version or written by hand, is taken as
it is.
"""

import hashlib
import json
import math
import pathlib
from collections.abc import Iterable
from typing import Any

from vit_jax.errors import UserError
from vit_jax.files.whole import read_file, write_file

_KEY = "content_sha256"
MAX_BYTES = 1 << 28
_MAX_DEPTH = 20


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
    data = read_file(path, MAX_BYTES)
    try:
        return parse(data)
    except ValueError as error:
        raise UserError(
            f"{path} is damaged: {error}; restore it from a copy."
        ) from None


def parse(text: bytes) -> dict[str, Any]:
    """The object that a text in JSON holds, without its SHA-256.

    Raises:
      ValueError: the text is no object in JSON, nested too deeply, or was changed.
    """
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object, {...}")
    _require_shallow(content)
    digest = content.pop(_KEY, None)
    if digest is not None and digest != _digest(content):
        raise ValueError(f'it differs from its SHA-256, which it has as "{_KEY}"')
    return content


def _require_shallow(content: Any) -> None:
    level = [content]
    for _ in range(_MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise ValueError("it is nested too deeply")


def _inside(content: Any) -> Iterable[Any]:
    values = content.values() if isinstance(content, dict) else content
    return (value for value in values if isinstance(value, dict | list))


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
