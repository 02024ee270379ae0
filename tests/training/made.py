"""Settings, batches, interruptions and last states of small trainings."""

import contextlib
import functools
import json
import signal

import jax
import numpy as np
import pytest

from vit_jax import data
from vit_jax.config import make_config
from vit_jax.parallel import mesh as meshes
from vit_jax.parallel.signals import Interrupted
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.folder import RunFolder
from vit_jax.training import logs
from vit_jax.training.experiment import make_experiment

# The ResNet of conftest.py in place of the ViT of `tiny_config`.
RESNET = {
    "model__name": "resnet10", "model__width": 4, "model__patch_size": None,
    "model__depth": None, "model__num_heads": None,
}  # fmt: skip


def batch_of(experiment, indices=None):
    """Training images on the devices: those at `indices`, or the first ones."""
    train = experiment.splits["train"]
    if indices is None:
        indices = np.arange(experiment.config.batch_size, dtype=np.int32)
    batch = {
        "images": train.images[indices],
        "labels": train.labels[indices],
        "indices": indices,
        "epochs": np.zeros_like(indices),
    }
    return meshes.put(batch, meshes.split_batch(experiment.mesh))


@contextlib.contextmanager
def interrupted(number=signal.SIGTERM):
    """A context in which a training gets a real signal during its next step."""
    original, calls = logs.TrainLog.add, []

    def add(*arguments):
        if not calls:
            signal.raise_signal(number)
        calls.append(arguments)
        original(*arguments)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted) as caught:
        patch.setattr(logs.TrainLog, "add", add)
        yield caught


def without_times(results):
    """The results of a training without its times, all of which are above 0."""
    times = {"train_seconds", "cpu_seconds", "compile_seconds", "images_per_second"}
    assert all(results[name] > 0 for name in times)
    return {name: value for name, value in results.items() if name not in times}


def newest(workdir, *stage):
    """Every array of the newest checkpoint: parameters, averages, optimizer.

    `stage` is the number of the stage that it is of, and of the steps before that.
    """
    shapes = _state_shapes(json.dumps(RunFolder(workdir).read("config")), *stage)
    with Checkpoints(RunFolder(workdir).checkpoints, read_only=True) as checkpoints:
        return checkpoints.restore("latest", shapes)[0]


# A test asks for those of one config several times, and of another one seldom.
@functools.lru_cache(maxsize=1)
def _state_shapes(config, *stage):
    """The shapes of the state that a config, as JSON, has in a stage."""
    config = make_config(json.loads(config))
    return make_experiment(config, data.load(config.data), *stage).state_shapes


def differing(a, b):
    """Names of the leaves whose bits differ."""
    pairs = zip(jax.tree_util.tree_leaves_with_path(a), jax.tree.leaves(b), strict=True)
    return {
        jax.tree_util.keystr(path, simple=True, separator="/")
        for (path, x), y in pairs
        if not np.array_equal(x, y)
    }
