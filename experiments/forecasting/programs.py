"""The programs of a config, compiled for a GPU that need not be there.

XLA compiles for a description of a device: the programs are those of a real run, but
for the choices that XLA makes by timing kernels on the device.
"""

import dataclasses
import time
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from vit_jax import data
from vit_jax.data.dataset import Dataset, hold_out
from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.parallel import mesh as meshes
from vit_jax.training import dispatch
from vit_jax.training.experiment import Experiment, make_experiment
from vit_jax.training.input_pipeline import InputPipeline
from vit_jax.training.memory import eval_batch_size

# Of the official splits of CIFAR-10 and CIFAR-100.
_NUM_TRAIN, _NUM_TEST = 50_000, 10_000


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


@dataclasses.dataclass(frozen=True)
class Programs:
    """What a run of a config computes on the target.

    Attributes:
      dispatches: how often a run calls the program of each number of train steps.
      train: the train program of the most frequent number of steps.
      evaluate: the evaluation of one batch.
      initialise: of the state.
      num_evaluations, num_eval_batches: in a run, and in one evaluation.
    """

    experiment: Experiment
    dispatches: dict[int, int]
    train: Program
    evaluate: Program
    initialise: Program
    num_evaluations: int
    num_eval_batches: int


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

    return hold_out(
        {"train": describe(_NUM_TRAIN), "test": describe(_NUM_TEST)},
        validation=config_data.validation,
        select_on=config_data.select_on,
        train_per_class=config_data.train_per_class,
        val_per_class=config_data.val_per_class,
        subset_test_per_class=config_data.subset_test_per_class,
        seed=config_data.split_seed,
    )


def compile_programs(config: ConfigDict, device: jax.Device) -> Programs:
    """Compiles training, evaluation and initialisation of a config's first stage.

    Args:
      config: complete; it is trained on one device.
      device: a description of a GPU, see `targets.describe_device`.

    Raises:
      UserError: the config has a mistake, or learns from a teacher.
    """
    if config.distill.teacher:
        raise UserError(
            "config.distill.teacher is set, but a forecast covers runs without a "
            "teacher only; leave the setting out."
        )
    config = config.copy_and_resolve_references()
    config.num_devices = 1
    splits = describe_data(config.data)
    with backend.computing_for("gpu"):
        experiment = make_experiment(config, splits, devices=[device])
        return _compile(experiment)


def _compile(experiment: Experiment) -> Programs:
    config, plan, mesh = experiment.config, experiment.plan, experiment.mesh
    whole = meshes.replicated(mesh)

    def describe(tree: Any, sharding: Any = whole) -> Any:
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree
        )

    pipeline = InputPipeline(experiment.splits["train"], config, mesh, put=describe)
    most = dispatch.steps_per_dispatch(config, plan, pipeline)
    dispatches = Counter(size for _, size in dispatch.plan_dispatches(plan, 0, most))
    num_steps = max(dispatches, key=lambda size: size * dispatches[size])
    root_key = describe(experiment.root_key)
    initialise = _timed(lambda: experiment.init_state.func.lower(root_key).compile())
    state = describe(jax.eval_shape(experiment.init_state))
    train = _timed(
        lambda: dispatch.compile_steps(
            experiment, state, root_key, pipeline, [num_steps]
        )[num_steps],
        num_steps,
    )
    batch_size = eval_batch_size(config, experiment.splits, mesh.size)
    shape = (batch_size, *experiment.splits["train"].images.shape[1:])
    images = jax.ShapeDtypeStruct(shape, jnp.uint8, sharding=meshes.split_batch(mesh))
    evaluate = _timed(
        lambda: experiment.eval_step.lower(state.variables, images).compile()
    )
    num_val = len(experiment.splits.get("val", ()))
    return Programs(
        experiment=experiment,
        dispatches=dict(dispatches),
        train=train,
        evaluate=evaluate,
        initialise=initialise,
        num_evaluations=-(-plan.total_steps // plan.eval_every) if num_val else 0,
        num_eval_batches=-(-num_val // batch_size),
    )


def _timed(compile_: Any, num_steps: int = 1) -> Program:
    start = time.monotonic()
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
