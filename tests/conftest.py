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
# JAX runs what the cache holds: nobody else may have put it there.
assert os.stat(_CACHE).st_uid == os.getuid(), f"{_CACHE} belongs to somebody else"
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


@pytest.fixture(scope="session")
def tiny_config():
    """A function from changed settings to a config that trains in seconds."""
    from vit_jax.config import make_config, set_value

    def make(**changes):
        config = make_config(
            {
                "num_steps": 6,
                "batch_size": 16,
                "eval_batch_size": 120,
                "eval_every": "3 steps",
                "checkpoint_every": "3 steps",
                "log_every": "2 steps",
                "num_devices": 1,
                "data": {"source": "digits", "name": "digits", "validation": 100},
                "augment": {"crop_padding_pixels": 1, "flip": "none"},
                "model": {
                    "name": "vit",
                    "patch_size": 4,
                    "width": 16,
                    "depth": 1,
                    "num_heads": 2,
                },
                "schedule": {"warmup": "2 steps"},
            }
        )
        for key, value in changes.items():
            set_value(config, key.replace("__", "."), value)
        return config

    return make


@pytest.fixture(scope="session")
def tiny_run(tiny_config, tmp_path_factory):
    """(folder, results) of a finished run of 6 steps; not to be changed."""
    from vit_jax.training.train import train_and_evaluate

    workdir = tmp_path_factory.mktemp("runs") / "tiny"
    return workdir, train_and_evaluate(tiny_config(), workdir)
