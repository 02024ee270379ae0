"""What every test stands on: 8 virtual devices, strict shapes, a compilation cache."""

import os
import pathlib
import tempfile

import jax
import pytest

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")

# One cache for all workers and for the processes that tests start.
_CACHE = os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR",
    os.path.join(tempfile.gettempdir(), f"vit_jax_tests_{os.getuid()}"),
)
pathlib.Path(_CACHE).mkdir(mode=0o700, exist_ok=True)
jax.config.update("jax_compilation_cache_dir", _CACHE)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def _data_dir(variable: str) -> pathlib.Path:
    if not os.environ.get(variable):
        pytest.skip(f"needs real data: set {variable} to its folder")
    return pathlib.Path(os.environ[variable])


@pytest.fixture(scope="session")
def cifar10_dir() -> pathlib.Path:
    """The official CIFAR-10 python batches."""
    return _data_dir("CIFAR10_DIR")


@pytest.fixture(scope="session")
def cifar100_dir() -> pathlib.Path:
    """CIFAR-100 in the official binary layout."""
    return _data_dir("CIFAR100_DIR")
