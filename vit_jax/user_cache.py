"""The user's cache folder, whose contents can be made again at any time."""

import os
import pathlib


def cache_folder() -> pathlib.Path:
    """$XDG_CACHE_HOME/vit_jax, or ~/.cache/vit_jax.

    The library platformdirs gives the same folder on Linux and would be one more
    dependency.
    """
    root = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(root) / "vit_jax"
