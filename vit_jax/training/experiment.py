"""An experiment: everything that a config describes, built and ready to run."""

import dataclasses
import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import optax
from flax import linen as nn
from jax.sharding import Mesh
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from vit_jax import augment, data, models
from vit_jax.config.stages import stage_configs
from vit_jax.models import backend
from vit_jax.parallel import mesh as meshes
from vit_jax.parallel import processes
from vit_jax.runs.run import Run, build_model
from vit_jax.training import (
    masked,
    memory,
    optim,
    resolve,
    scoring,
    steps,
    train_state,
    trainable,
)
from vit_jax.training.objectives import make_objective
from vit_jax.training.plan import Plan, make_plan
from vit_jax.training.teacher import load_teacher, pin_teacher
from vit_jax.training.train_state import TrainState


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Everything that a config describes, for one stage of the training.

    Attributes:
      config: complete, with the values that the model and the dataset give.
      stage_config: the same with the settings of this stage, and without `stages`.
      stage: its number, from 0.
      splits: "train", "test" and, where asked for, "val" and "subset_test".
      trained: names of the parameters that this stage trains; None: all.
      num_microbatches: number of parts in which a batch is computed.
      root_key: the run's only random key.
      state_shapes: shapes, dtypes and shardings of the state's arrays.
      init_state: () -> the state before the first step, on the mesh.
      teacher_run, teacher: the run from whose model this one learns, and its variables
        on the mesh; or None.
      train_step: (state, batch, root_key, lr_scale, teacher) -> (state, metrics), not
        compiled; the batch is that of `steps.take_batch`.
      scoring: the module that says what `eval_step` gives and how it becomes scores:
        `scoring`, or `masked` for masked autoencoding.
      eval_step: (variables, images uint8) -> logits, or the loss of each image where
        `scoring` is `masked`; compiled by `compile_evaluation`, or else on first use.
      eval_batch_size: the setting, at most the largest split, as a multiple of the
        devices.
    """

    config: ConfigDict
    stage_config: ConfigDict
    stage: int
    splits: dict[str, data.Dataset]
    plan: Plan
    mesh: Mesh
    model: nn.Module
    trained: frozenset[str] | None
    num_microbatches: int
    root_key: Array
    state_shapes: TrainState
    init_state: Callable[[], TrainState]
    teacher_run: Run | None
    teacher: Any
    train_step: Callable
    scoring: types.ModuleType
    eval_step: Callable
    eval_batch_size: int

    @property
    def is_last(self) -> bool:
        """Whether no other stage follows."""
        return self.stage + 1 >= len(self.config.stages)

    @property
    def evaluated_split(self) -> str | None:
        """Name of the split that evaluations during training score: "test" where it
        chooses the checkpoint, else "val"; None where nothing is evaluated."""
        if "val" not in self.splits:
            return None
        return "test" if self.splits["val"] is self.splits["test"] else "val"

    def evaluate(self, variables: Any) -> dict[str, float | None]:
        """{"accuracy", "loss"} on "val", the same on every process."""
        outputs, labels = self.score(variables, "val"), self.splits["val"].labels
        # The hosts' CPUs may round differently, and all decide by these numbers.
        return processes.broadcast_from_primary(
            lambda: self.scoring.brief_scores(outputs, labels)
        )

    def score(
        self, variables: Any, split: str, eval_step: Callable | None = None
    ) -> Float[np.ndarray, "n ..."]:
        """What `eval_step`, or the experiment's own, gives for every image."""
        return scoring.score_split(
            variables,
            self.splits[split].images,
            eval_step=eval_step or self.eval_step,
            batch_size=self.eval_batch_size,
            mesh=self.mesh,
        )


def make_experiment(
    config: ConfigDict,
    splits: dict[str, data.Dataset],
    stage: int = 0,
    first_step: int = 0,
    teacher: Run | None = None,
    devices: Sequence[jax.Device] | None = None,
    previous: Experiment | None = None,
) -> Experiment:
    """Builds model, optimizer, augmentation and steps; compiles nothing.

    Args:
      stage, first_step: number of the stage, and of the steps done before it.
      teacher: of `load_teacher`, which is called here where this is None; several
        processes have to call it first, all together.
      devices: to choose config.num_devices from; None: all that JAX has.
      previous: whose state, images and teacher are on the devices already, so that the
        memory for them is not asked for again; see `next_stage`.

    Raises:
      UserError: settings that do not fit each other, the data or the devices.
    """
    train = splits["train"]
    teacher = teacher or load_teacher(config.distill)
    run_config = pin_teacher(resolve.resolve_config(config, train), teacher, train)
    config = stage_configs(run_config)[stage]
    mesh = meshes.make_mesh(config.num_devices, devices)
    resolve.check_settings(config, splits, mesh)
    plan = make_plan(config, len(train.images), first_step)
    image_shape = augment.input_shape(train.images.shape[1:], config.data.resize)
    model, params = _make_model(config, image_shape, len(train.class_names))
    trained = resolve.trained_names(config, params)
    num_microbatches = resolve.num_microbatches(config, model, image_shape)
    schedule, optimizer = _make_optimizer(config, plan, params)
    root_key = train_state.make_root_key(config.seed)
    state_shapes, init_state = _make_init(
        config, mesh, root_key,
        model=model, optimizer=optimizer, image_shape=image_shape, trained=trained,
    )  # fmt: skip
    largest_split = max(map(len, splits.values()))
    eval_batch_size = scoring.round_up(min(config.eval_batch_size, largest_split), mesh)
    if previous is None:
        memory.require_memory_to_train(
            config, mesh, model, train.images, state_shapes, teacher,
            trained=trained, num_microbatches=num_microbatches,
            eval_batch_size=eval_batch_size,
        )  # fmt: skip
        on_devices = teacher and meshes.put(teacher.variables, meshes.replicated(mesh))
    else:
        on_devices = previous.teacher
    class_weights = resolve.class_weights(config, train)
    train_step = functools.partial(
        steps.train_step,
        objective=make_objective(config, model, teacher, class_weights),
        optimizer=optimizer,
        schedule=lambda step: schedule(step - first_step),
        augment=_make_augment(config, plan, len(train.class_names)),
        trained=trained,
        num_microbatches=num_microbatches,
        loss_scale=steps.loss_scale_of(config.model.dtype),
        ema_decay=config.optim.ema_decay,
    )
    how_scored = masked if config.objective == "masked_autoencoding" else scoring
    return Experiment(
        config=run_config,
        stage_config=config,
        stage=stage,
        splits=splits,
        plan=plan,
        mesh=mesh,
        model=model,
        trained=trained,
        num_microbatches=num_microbatches,
        root_key=root_key,
        state_shapes=state_shapes,
        init_state=init_state,
        teacher_run=teacher,
        teacher=on_devices,
        train_step=train_step,
        scoring=how_scored,
        eval_step=how_scored.make_eval_step(config.data, model, mesh),
        eval_batch_size=eval_batch_size,
    )


def _make_model(
    config: ConfigDict, image_shape: tuple[int, int, int], num_classes: int
) -> tuple[nn.Module, Any]:
    """(model, shapes of its parameters), checked as far as shapes can tell."""
    model = build_model(config, image_shape, num_classes)
    shapes = models.checked_shapes(config.model.name, model, image_shape)
    if config.linear_probe:
        resolve.check_probe(model, shapes, image_shape)
    return model, shapes["params"]


def _make_optimizer(
    config: ConfigDict, plan: Plan, params: Any
) -> tuple[optax.Schedule, optax.GradientTransformation]:
    """(schedule, optimizer) of a stage, for parameters of the shapes `params`."""
    schedule = optim.make_schedule(
        config.schedule,
        peak=config.optim.learning_rate,
        total_steps=plan.total_steps,
        steps_per_epoch=plan.steps_per_epoch,
    )
    depth = trainable.num_blocks(trainable.trainable_names(params, "all"))
    return schedule, optim.make_optimizer(config.optim, schedule, depth)


def _make_augment(config: ConfigDict, plan: Plan, num_classes: int) -> Callable:
    """The augmentation of a stage's batches, see `augment.make_augment`."""
    return augment.make_augment(
        config.augment,
        mean=config.data.mean,
        std=config.data.std,
        num_classes=num_classes,
        mix_until_step=plan.first_step + plan.mix_until,
        side=config.data.resize,
    )


def _make_init(
    config: ConfigDict, mesh: Mesh, root_key: Array, **settings: Any
) -> tuple[TrainState, Callable[[], TrainState]]:
    """(state_shapes, init_state) of an `Experiment`.

    Args:
      settings: of `train_state.init_state`.
    """
    init_state = functools.partial(
        train_state.init_state, use_ema=config.optim.ema_decay > 0, **settings
    )
    # JAX keeps what it traced by this context, so `init_state` need not trace again.
    with backend.drawing_by_kernel():
        shapes = jax.eval_shape(init_state, root_key)
    shapes = meshes.state_shapes(mesh, shapes, split=config.shard_params)
    compiled = backend.jit_initialisation(
        init_state, out_shardings=jax.tree.map(lambda x: x.sharding, shapes)
    )
    # The key is an argument: one compilation serves all seeds.
    return shapes, functools.partial(compiled, root_key)


def compile_evaluation(experiment: Experiment) -> Experiment:
    """The experiment with its `eval_step` compiled.

    All batches have one size, and the variables of all stages and checkpoints have the
    same shapes and shardings, so one program serves them all.
    """
    image_shape = experiment.splits["test"].images.shape[1:]
    images = jax.ShapeDtypeStruct(
        (experiment.eval_batch_size, *image_shape),
        np.uint8,
        sharding=meshes.split_batch(experiment.mesh),
    )
    variables = experiment.state_shapes.variables
    compiled = experiment.eval_step.lower(variables, images).compile()
    return dataclasses.replace(experiment, eval_step=compiled)


def next_stage(experiment: Experiment, first_step: int) -> Experiment:
    """The experiment of the stage after that of `experiment`."""
    built = make_experiment(
        experiment.config,
        experiment.splits,
        experiment.stage + 1,
        first_step,
        experiment.teacher_run,
        previous=experiment,
    )
    # Every stage has the same, which is compiled already.
    return dataclasses.replace(built, eval_step=experiment.eval_step)
