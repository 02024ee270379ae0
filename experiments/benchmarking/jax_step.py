"""The project's train step, compiled for measurement."""

import pathlib
import time
from collections.abc import Sequence

import jax
import numpy as np
from ml_collections import ConfigDict

from vit_jax.config import apply_overrides, load_config_file, make_config
from vit_jax.data import Dataset
from vit_jax.parallel import mesh as meshes
from vit_jax.runs.user_code import add_user_code
from vit_jax.training import dispatch
from vit_jax.training.experiment import make_experiment
from vit_jax.training.input_pipeline import InputPipeline

NUM_IMAGES = 50_000
# The config files that some names stand for; others are models with default settings.
CONFIGS = {
    "vit_cifar": "vit_cifar.py",
    "vit_ti": "vit_192x12.py",
    "vit_192x9": "vit_192x9.py",
    "vit_laptop": "vit_laptop.py",
    "resnet18": "vit_192x9.py:resnet18",
}


def load_config(model: str, batch_size: int, overrides: Sequence[str]) -> ConfigDict:
    """The config a model is measured with, on one device."""
    folder = pathlib.Path(__file__).parents[2] / "configs"
    config = (
        load_config_file(str(folder / CONFIGS[model]))
        if model in CONFIGS
        else make_config({"model": {"name": model}})
    )
    for key, value in {
        "batch_size": batch_size,
        "num_devices": 1,
        "time_budget": None,  # Only a training measures how many steps that would be.
        "data.mean": (0.49, 0.48, 0.45),
        "data.std": (0.25, 0.24, 0.26),
    }.items():
        config[key] = value
    config = apply_overrides(config, overrides)
    add_user_code(config.code)
    return config


def without_augmentation(config: ConfigDict) -> ConfigDict:
    """The same config with images that are only normalised."""
    config = config.copy_and_resolve_references()
    config.augment = make_config({"augment": {"crop": "none", "flip": "none"}}).augment
    return config


def make_dataset() -> Dataset:
    """Random images, as many and as large as those that CIFAR-10 trains on."""
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(NUM_IMAGES, 32, 32, 3), dtype=np.uint8)
    labels = rng.integers(10, size=NUM_IMAGES, dtype=np.int32)
    return Dataset(images, labels, tuple("abcdefghij"))


class JaxStep:
    """`steps_per_dispatch` train steps in one call, on data that is on the device.

    Attributes:
      experiment: what is trained.
      compile_seconds: of tracing, lowering and compiling.
      temp_bytes: XLA's scratch memory, without state and data.
      pipeline: gives each step its batch.
      state: after the steps so far.
      metrics: of each step of the last call.
    """

    def __init__(self, config: ConfigDict, dataset: Dataset, steps_per_dispatch: int):
        splits = dict.fromkeys(("train", "val", "test"), dataset)
        self.experiment = make_experiment(config, splits)
        self.steps_per_dispatch = steps_per_dispatch
        self.restart()
        mesh = self.experiment.mesh
        whole = meshes.replicated(mesh)
        self.pipeline = InputPipeline(dataset, self.experiment.config, mesh)
        self._root_key = jax.device_put(self.experiment.root_key, whole)
        self._lr_scale = meshes.put(np.float32(1), whole)
        start = time.perf_counter()
        self._compiled = dispatch.compile_steps(
            self.experiment, self.pipeline, steps_per_dispatch
        )
        self.compile_seconds = time.perf_counter() - start
        memory = self._compiled.memory_analysis()
        self.temp_bytes = memory.temp_size_in_bytes if memory is not None else 0

    def restart(self) -> None:
        """Goes back to the state before the first step."""
        self.state, self._next_step = self.experiment.init_state(), 0

    def __call__(self) -> None:
        size = self.steps_per_dispatch
        batches = self.pipeline.batches_at(self._next_step, size, size)
        self._next_step += size
        self.state, self.metrics = self._compiled(
            self.state,
            self.pipeline.split,
            self.pipeline.put(batches),
            self._root_key,
            self._lr_scale,
            self.experiment.teacher,
        )
        jax.block_until_ready(self.metrics)
