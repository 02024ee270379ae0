"""Where JAX keeps the programs it has compiled."""

import os
import pathlib
import sys
import warnings

from vit_jax.errors import UserError
from vit_jax.files import cache_folder, is_private, make_cache_folder


def compiled_folder() -> pathlib.Path:
    """Where `keep_compiled_programs` keeps them."""
    return cache_folder() / "compiled"


def keep_compiled_programs() -> None:
    """Lets JAX keep what it compiles, so that the next start is much faster.

    JAX runs what it finds there, so nobody else may be able to write to that folder;
    otherwise nothing is kept. JAX's own settings have precedence, such as the variables
    JAX_COMPILATION_CACHE_DIR and JAX_ENABLE_COMPILATION_CACHE=false.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    jax = sys.modules.get("jax")
    if jax and jax.config.jax_compilation_cache_dir:
        return
    try:
        folder = compiled_folder()
        for path in (make_cache_folder(), folder):
            path.mkdir(mode=0o700, exist_ok=True)
            if not is_private(path):
                warnings.warn(
                    f"{path} can be written by others, so compiled programs are not "
                    "kept there; make it yours alone (chmod 700).",
                    stacklevel=2,
                )
                return
    except (OSError, UserError):  # a home that is read-only, or none at all
        return
    settings = {
        "jax_compilation_cache_dir": str(folder),
        # Below this a program is compiled faster than it is looked up.
        "jax_persistent_cache_min_compile_time_secs": 0.1,
    }
    for name, value in settings.items():
        if name.upper() not in os.environ:
            # Commands that have not imported JAX yet read the environment.
            os.environ[name.upper()] = str(value)
            if jax:
                jax.config.update(name, value)
