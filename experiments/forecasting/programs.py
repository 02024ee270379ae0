"""The programs of a config, compiled for a GPU that need not be there.

XLA compiles for a description of a device: the programs are those of a real run, but
for the choices that XLA makes by timing kernels on the device.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import numpy as np
from ml_collections import ConfigDict

from vit_jax import data
from vit_jax.data.dataset import Dataset
from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.parallel import mesh as meshes
from vit_jax.runs.user_code import add_user_code
from vit_jax.training import dispatch
from vit_jax.training.experiment import Experiment, make_experiment
from vit_jax.training.experiment import compile_evaluation as compile_eval_step
from vit_jax.training.input_pipeline import InputPipeline

# Of the official splits of CIFAR-10 and CIFAR-100.
_NUM_TRAIN, _NUM_TEST = 50_000, 10_000

_CUDNN_VERSION = 91200  # 9.12.0, as the files of the targets say.


@dataclasses.dataclass(frozen=True)
class Program:
    """One compiled program.

    Attributes:
      text: the optimised HLO.
      num_steps: train steps, or batches, that one call computes.
      peak_bytes: device memory that it takes, with its arguments and results.
      compile_seconds: on this machine, of lowering and compiling.
    """

    text: str
    num_steps: int
    peak_bytes: int
    compile_seconds: float


def describe_data(config_data: ConfigDict) -> dict[str, Dataset]:
    """Splits of the right size and shape; those of CIFAR have black images.

    Raises:
      UserError: the data are not there, or the settings do not fit them.
    """
    known = data.known_shape(config_data)
    if known is None or config_data.source == "digits":
        return data.load(config_data)
    image_shape, num_classes = known

    def describe(size):
        labels = np.arange(size, dtype=np.int32) % num_classes
        images = np.zeros((size, *image_shape), np.uint8)
        return Dataset(images, labels, tuple(map(str, range(num_classes))))

    splits = {"train": describe(_NUM_TRAIN), "test": describe(_NUM_TEST)}
    return data.hold_out(splits, config_data)


def make_described(config: ConfigDict, device: jax.Device) -> Experiment:
    """The experiment of a config on a device that is only described.

    Args:
      config: complete; it is trained on one device.
      device: see `targets.describe_devices`.

    Raises:
      UserError: the config has a mistake, a teacher, stages or a linear probe.
    """
    more = {
        "distill.teacher": config.distill.teacher,
        "stages": config.stages,
        "linear_probe": config.linear_probe,
    }
    for key, value in more.items():
        if value:
            raise UserError(
                f"config.{key} is set, but a forecast covers runs of one stage, "
                "without a teacher or a linear probe; leave the setting out."
            )
    add_user_code(config.code)
    config = config.copy_and_resolve_references()
    config.num_devices = 1
    with computing_for(device):
        return make_experiment(config, describe_data(config.data), devices=[device])


def compile_training(experiment: Experiment) -> Program:
    """The train program of a run of `make_described`."""
    pipeline = InputPipeline(
        experiment.splits["train"],
        experiment.config,
        experiment.mesh,
        put=lambda arrays, _: _describe(experiment, arrays),
    )
    with computing_for(experiment.mesh.devices.item()):
        most = dispatch.most_steps(experiment.config, experiment.plan, pipeline)
    size = dispatch.program_size(experiment.plan, most)
    return _timed(
        experiment, lambda: dispatch.compile_steps(experiment, pipeline, size), size
    )


def compile_evaluation(experiment: Experiment) -> Program:
    """The evaluation of one batch."""
    return _timed(experiment, lambda: compile_eval_step(experiment).eval_step)


def compile_initialisation(experiment: Experiment) -> Program:
    """The program that draws the initial state."""
    root_key = _describe(experiment, experiment.root_key)
    init_state = experiment.init_state.func.__wrapped__

    def compile_():
        with backend.drawing_by_kernel():
            return init_state.lower(root_key).compile()

    return _timed(experiment, compile_)


@contextlib.contextmanager
def computing_for(device: jax.Device) -> Iterator[None]:
    """A context in which programs are built as on a machine with that NVIDIA GPU."""
    # Before JAX lowers the fused attention it asks the installed cuDNN, which no
    # forecast has or needs, for its version. JAX has no public way to state one.
    stated = mock.patch(
        "jax._src.cudnn.fused_attention_stablehlo.check_cudnn_version",
        return_value=_CUDNN_VERSION,
    )
    with stated, backend.computing_for("gpu", device.compute_capability):
        yield


def _describe(experiment: Experiment, tree: Any) -> Any:
    """Shapes of arrays, each with a whole copy on the device."""
    sharding = meshes.replicated(experiment.mesh)
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree
    )


def _timed(
    experiment: Experiment, compile_: Callable[[], Any], num_steps: int = 1
) -> Program:
    start = time.monotonic()
    with computing_for(experiment.mesh.devices.item()):
        compiled = compile_()
    seconds = time.monotonic() - start
    sizes = compiled.memory_analysis()
    peak = (
        sizes.argument_size_in_bytes
        + sizes.output_size_in_bytes
        - sizes.alias_size_in_bytes
        + sizes.temp_size_in_bytes
    )
    return Program(compiled.as_text(), num_steps, peak, seconds)
