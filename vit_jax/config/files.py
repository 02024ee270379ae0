"""Config files.

A config file has a function `get_config()`, or `get_config(variant="...")`, which
returns `default_config()` with the settings changed that it is about:

    def get_config():
        config = default_config()
        config.model.depth = 4
        return config

A file of the folder configs/ is also found by its name, from any folder:
--config=vit_cifar.
"""

import contextlib
import importlib.util
import inspect
import os
import pathlib
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

import vit_jax
from vit_jax.config.values import check_config, flatten, make_config, settle_changes
from vit_jax.errors import UserError, did_you_mean, one_line, show
from vit_jax.files import user_path


def config_files() -> dict[str, pathlib.Path]:
    """The config files that come with this package, by name."""
    package = pathlib.Path(vit_jax.__file__).parent
    # A wheel has the configs inside the package, a checkout has them beside it.
    inside, beside = package / "configs", package.parent / "configs"
    folder = inside if inside.is_dir() else beside
    return {file.stem: file for file in sorted(folder.glob("*.py"))}


def _find_config_file(name: str) -> pathlib.Path:
    known = config_files()
    if name in known:
        return known[name]
    file = user_path(name)
    if file.is_file() and file.suffix == ".py":
        return file
    if file.is_dir():
        raise UserError(
            f"--config={name} is a folder, but must be a config file; for your own "
            f"images, write --config=folder --config.data.dir={name}."
        )
    near = sorted(str(path) for path in file.parent.glob("*.py"))
    guess = did_you_mean(name, near) or did_you_mean(file.stem, known)
    raise UserError(
        f"There is no config file {name}{guess}; give the path of a .py file or one of "
        f"these names: {', '.join(known)}."
    )


def load_config_file(path: str | os.PathLike) -> ConfigDict:
    """Runs `get_config()` of a config file, or `get_config("variant")`.

    Args:
      path: "FILE.py" or "FILE.py:variant". In place of FILE.py it may have the name of
        a config that comes with this package, such as "vit_digits".

    Raises:
      UserError: there is no such file, variant or function, the file's code fails, or
        it has a setting that is refused.
    """
    name, _, variant = os.fspath(path).partition(":")
    file = _find_config_file(name).resolve()
    module = run_file(name, file)
    if not callable(getattr(module, "get_config", None)):
        raise UserError(f"{name} has no function get_config(), which a config needs.")
    if variant and not inspect.signature(module.get_config).parameters:
        raise UserError(f"{name} has no variants; write --config={name}.")
    with _errors_as_sentences(name, file, variant):
        settings = module.get_config(variant) if variant else module.get_config()
    if not hasattr(settings, "items"):
        raise UserError(
            f"get_config() in {name} returns {show(settings)}, but must return a "
            "config; end it with `return config`."
        )
    return make_config(settings)


def run_file(name: str, file: pathlib.Path) -> types.ModuleType:
    """Runs a user's Python file; `name` is what messages call it.

    Raises:
      UserError: its code fails; the message names the line.
    """
    # The name is the whole path, which is no other module's.
    spec = importlib.util.spec_from_file_location(str(file), file)
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks for its module there, to understand annotations that are text.
    sys.modules[spec.name] = module
    with _errors_as_sentences(name, file):
        # The loader's own `exec_module` would run what __pycache__ holds for the file,
        # which may be of its content a second ago, or not of this file at all.
        code = spec.loader.source_to_code(file.read_bytes(), str(file))
        exec(code, module.__dict__)
    return module


def load_config(
    name: str | os.PathLike, overrides: Mapping[str, Any] | None = None
) -> ConfigDict:
    """A config by its name or file, with some settings changed.

        load_config("vit_cifar", {"batch_size": 256, "optim.learning_rate": 3e-4})

    Args:
      name: see `load_config_file`.
      overrides: settings by their dotted names, or nested.

    Raises:
      UserError: as `load_config_file` does, or an override is refused.
    """
    config = load_config_file(name)
    overrides = overrides or {}
    if not hasattr(overrides, "items"):
        raise UserError(
            f"The overrides are {show(overrides)}, but must be a mapping such as "
            '{"batch_size": 256, "optim.learning_rate": 3e-4}.'
        )
    for key, value in overrides.items():
        config[key] = value
    settle_changes(config, dict(flatten(overrides)))
    check_config(config)
    return config


@contextlib.contextmanager
def _errors_as_sentences(
    name: str, file: pathlib.Path, variant: str = ""
) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        if variant and isinstance(error, KeyError) and error.args == (variant,):
            raise UserError(
                f"{name} has no variant {show(variant)}; its header lists them."
            ) from None
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(file)]
        line = lines[-1] if lines else getattr(error, "lineno", 1)
        raise UserError(
            f"{name} fails in line {line} ({one_line(error)}); correct the file."
        ) from error
