"""The project's train step, compiled for measurement."""

import itertools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from experiments.timing import seconds_of
from vit_jax import mesh as meshes
from vit_jax import steps
from vit_jax.config import (
    apply_overrides,
    default_config,
    load_config_file,
    make_config,
    set_value,
)
from vit_jax.data import Dataset, batches
from vit_jax.experiment import Experiment, make_experiment

NUM_IMAGES = 50_000
# Whose augmentation and optimizer a model is measured with; others: the defaults'.
CONFIGS = {
    "vit_ti": "vit_192x12.py",
    "vit_192x9": "vit_192x9.py",
    "resnet18": "vit_192x9.py:resnet18",
}


def load_config(model: str, batch_size: int, overrides: Sequence[str]) -> ConfigDict:
    """The config a model is measured with, on one device."""
    folder = pathlib.Path(__file__).parents[1] / "configs"
    config = (
        load_config_file(str(folder / CONFIGS[model]))
        if model in CONFIGS
        else default_config()
    )
    for key, value in {
        "model.name": model,
        "batch_size": batch_size,
        "num_devices": 1,
        "data.mean": (0.49, 0.48, 0.45),
        "data.std": (0.25, 0.24, 0.26),
    }.items():
        set_value(config, key, value)
    return apply_overrides(config, overrides)


def without_augmentation(config: ConfigDict) -> ConfigDict:
    """The same config, whose images are only normalised."""
    config = config.copy_and_resolve_references()
    config.augment = make_config({"augment": {"crop": "none", "flip": "none"}}).augment
    return config


def make_dataset() -> Dataset:
    """As many images as CIFAR-10 trains on, and as large; random, which costs alike."""
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
    """

    experiment: Experiment
    compile_seconds: float
    temp_bytes: int

    def __init__(self, config: ConfigDict, dataset: Dataset, steps_per_dispatch: int):
        splits = dict.fromkeys(("train", "val", "test"), dataset)
        self.experiment = make_experiment(config, splits)
        self.steps_per_dispatch = steps_per_dispatch
        self._state = self.experiment.init_state()
        self._counter = itertools.count()
        whole = meshes.replicated(self.experiment.mesh)
        split = meshes.put((dataset.images, dataset.labels), whole)
        self._inputs = split, jax.device_put(self.experiment.root_key, whole)
        jitted = jax.jit(self._many_steps, donate_argnums=0)
        lowered: list[Any] = []
        self.compile_seconds = seconds_of(
            lambda: lowered.append(
                jitted.lower(self._state, self._next_batches(), *self._inputs).compile()
            )
        )
        self._compiled: Callable = lowered[0]
        memory = self._compiled.memory_analysis()
        self.temp_bytes = memory.temp_size_in_bytes if memory is not None else 0

    def __call__(self) -> None:
        self._state, metrics = self._compiled(
            self._state, self._next_batches(), *self._inputs
        )
        jax.block_until_ready(metrics)

    def _next_batches(self) -> dict[str, jax.Array]:
        """Indices and epochs of the next steps, [steps, batch], as in the loop."""
        size = self.experiment.config.batch_size
        numbers = [next(self._counter) for _ in range(self.steps_per_dispatch)]
        batch = {
            "indices": np.stack(
                [batches.train_indices(NUM_IMAGES, size, 0, n) for n in numbers]
            ),
            "epochs": np.stack(
                [batches.train_epochs(NUM_IMAGES, size, n) for n in numbers]
            ),
        }
        return meshes.put(batch, meshes.replicated(self.experiment.mesh))

    def _many_steps(self, state, batch, split, root_key):
        def one_step(state, batch):
            batch = steps.take_batch(*split, **batch)
            return self.experiment.train_step(state, batch, root_key, jnp.float32(1))

        if self.steps_per_dispatch == 1:
            # Not a scan of one: on a CPU convolutions are far slower inside a loop.
            return one_step(state, jax.tree.map(lambda x: x[0], batch))
        return jax.lax.scan(one_step, state, batch)
