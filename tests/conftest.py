"""What every test needs: 8 virtual devices, strict shapes, and quick compilations.

Tests that are marked `slow` run only with `--full`, or when they are named one by one.
The folders of the tests mirror those of the code: `vit_jax/ROOM/MODULE.py` is tested in
`tests/ROOM/test_MODULE.py`, and what several modules do together, such as resuming a
run, in a file of its own. No test uses a name of `vit_jax` that begins with an
underscore. `test_layering` checks both. A conftest.py imports `vit_jax` inside its
functions, since the hook that checks types and shapes is installed after it is loaded.
"""

import functools
import gc
import os
import pathlib
import shutil
import tempfile

import jax
import numpy as np
import pytest

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Much of the time is compilation, which takes about half as long without LLVM's
# optimization and with XLA's older way to emit fused operations. JAX 0.11 no longer has
# the older way, and XLA ends a process that names a flag it does not have. Flags of the
# caller's XLA_FLAGS take the place of these, since XLA goes by the last one.
_FLAGS = "--xla_backend_optimization_level=0"
if jax.__version_info__ < (0, 11):
    _FLAGS += " --xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{_FLAGS} {os.environ.get('XLA_FLAGS', '')}".strip()

# JAX keeps every compiled program, so the garbage collector has ever more to look at;
# as often as Python has it by default, it took 6% of the time.
gc.set_threshold(50_000, 20, 20)

# One cache serves all workers and the processes that tests start.
_CACHE = os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR",
    os.path.join(tempfile.gettempdir(), f"vit_jax_tests_{os.getuid()}"),
)
pathlib.Path(_CACHE).mkdir(mode=0o700, exist_ok=True)
# JAX runs the programs in the cache, so only this user may have written them.
assert os.stat(_CACHE).st_uid == os.getuid(), f"{_CACHE} belongs to somebody else"
jax.config.update("jax_compilation_cache_dir", _CACHE)
# What compiles for longer than this is kept; by JAX's default it would be a second.
_KEEP = os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
jax.config.update("jax_persistent_cache_min_compile_time_secs", float(_KEEP))

_NUM_SLOW = pytest.StashKey[int]()


def pytest_addoption(parser):
    parser.addoption(
        "--full", action="store_true", help="run the tests that are marked slow as well"
    )


def pytest_collection_modifyitems(config, items):
    """Leaves the slow tests out, unless all or single ones are asked for."""
    named = any("::" in argument for argument in config.args)
    if config.getoption("full") or named:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    items[:] = [item for item in items if not item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    config.stash[_NUM_SLOW] = len(slow)


def pytest_terminal_summary(terminalreporter, config):
    if count := config.stash.get(_NUM_SLOW, 0):
        terminalreporter.line(
            f"{count} slow tests were left out; `pytest --full` runs them as well"
        )


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
    from vit_jax.config import make_config

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
        if changes.get("stages"):
            config.num_steps = None  # Each stage has a length of its own.
        for key, value in changes.items():
            config[key.replace("__", ".")] = value
        return config

    return make


@pytest.fixture
def resnet10():
    """The model "resnet10" with two of its stages, which compiles in half the time.

    They have both kinds of blocks: with and without a stride and its shortcut.
    """
    from vit_jax import models

    with pytest.MonkeyPatch.context() as patch:
        network = functools.partial(models.ResNet, stage_sizes=(1, 1))
        patch.setitem(models.MODELS, "resnet10", network)
        yield


@pytest.fixture(scope="session")
def tiny_run(tiny_config, tmp_path_factory):
    """(folder, results) of a finished run of 6 steps; not to be changed.

    It has a second test split, of 5 images of each class.
    """
    from vit_jax.training.train import train_and_evaluate

    workdir = tmp_path_factory.mktemp("runs") / "tiny"
    config = tiny_config(data__subset_test_per_class=5)
    return workdir, train_and_evaluate(config, workdir)


@pytest.fixture
def copied_run(tiny_run, tmp_path):
    """The folder of a copy of `tiny_run`, which the test may change."""
    return shutil.copytree(tiny_run[0], tmp_path / "copy")


@pytest.fixture(scope="module")
def two_runs(tiny_run, tmp_path_factory):
    """The tiny run, and a copy that calls itself another seed of the same config."""
    from vit_jax.runs.folder import RunFolder

    copy = shutil.copytree(tiny_run[0], tmp_path_factory.mktemp("two") / "again")
    folder = RunFolder(copy)
    folder.write("config", folder.read("config") | {"seed": 1})
    results = folder.read("results")
    results["test"]["generalization_gap"] = 0.25
    results["num_trainable_params"] = 1000
    folder.write("results", results)
    return tiny_run[0], copy


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A folder with a grey, an RGB and an RGBA picture, and a text beside them."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(20, 30, 4), dtype=np.uint8)
    Image.fromarray(pixels[..., 0]).save(folder / "a.png")
    Image.fromarray(pixels[..., :3]).save(folder / "b.jpg")
    (folder / "deeper").mkdir()
    Image.fromarray(pixels).save(folder / "deeper" / "c.png")
    (folder / "notes.txt").write_text("no image")
    return folder


def _copy_weights(variables, net):
    """Copies variables into a PyTorch model that gives its layers the same names."""
    import torch

    state = {}
    for collection in ("params", "batch_stats"):
        tree = variables.get(collection, {})
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            *layers, name = (entry.key for entry in path if entry.key != "mlp")
            if layers and layers[0].startswith(("block", "stage")):
                layers.insert(0, "blocks")
            value = np.asarray(leaf)
            if name == "kernel":
                module = net.get_submodule(".".join(layers))
                shape = module.weight.shape
                # Convolutions [h, w, in, out]; dense layers [in..., out...].
                value = (
                    value.transpose(3, 2, 0, 1)
                    if len(shape) == 4
                    else value.reshape(shape[::-1]).T
                )
            name = {"kernel": "weight", "scale": "weight", "mean": "running_mean",
                    "var": "running_var"}.get(name, name)  # fmt: skip
            state[".".join([*layers, name])] = torch.tensor(
                value if name != "bias" else value.reshape(-1)
            )
    missing = net.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys
    assert all("num_batches" in key for key in missing.missing_keys)


@pytest.fixture(scope="session")
def make_torch_net():
    """A function from a JAX model and its variables to the same model in PyTorch."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from experiments.benchmarking import torch_models

    def make(model, variables, image_size):
        net = torch_models.make_model(model, image_size).eval()
        _copy_weights(variables, net)
        return net

    return make
