"""Everything a config describes, built and ready to run."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from flax import linen as nn
from jax.sharding import Mesh
from jaxtyping import Array, Float, UInt32
from ml_collections import ConfigDict

from vit_jax import augment, data, models
from vit_jax.config import set_value
from vit_jax.config.durations import to_steps
from vit_jax.errors import UserError
from vit_jax.parallel import mesh as meshes
from vit_jax.training import optim, scoring, steps

# Multiply-accumulates of a slice's forward pass: a few tenths of a second on two cores.
_MIN_SLICE_MACS = 8e9


@dataclasses.dataclass(frozen=True)
class Plan:
    """The config's durations, in optimizer steps."""

    steps_per_epoch: float
    total_steps: int
    log_every: int
    eval_every: int
    checkpoint_every: int
    mix_until: int
    stop_after: int


def make_plan(config: ConfigDict, num_examples: int) -> Plan:
    """Turns the durations of a config into steps over `num_examples` images a pass."""
    steps_per_epoch = num_examples / config.batch_size
    total_steps = config.num_steps or max(
        1, to_steps(config.num_epochs, steps_per_epoch=steps_per_epoch)
    )
    convert = functools.partial(
        to_steps, steps_per_epoch=steps_per_epoch, total_steps=total_steps
    )
    eval_every = max(1, convert(config.eval_every))
    checkpoint_every = max(1, convert(config.checkpoint_every))
    # 10 epochs are twice 5, also once they are rounded: then the steps between two
    # stops are always as many, and one compiled program serves them all.
    ratio = round(checkpoint_every / eval_every)
    if abs(checkpoint_every - ratio * eval_every) <= ratio:
        checkpoint_every = ratio * eval_every
    return Plan(
        steps_per_epoch=steps_per_epoch,
        total_steps=total_steps,
        log_every=max(1, convert(config.log_every)),
        eval_every=eval_every,
        checkpoint_every=checkpoint_every,
        mix_until=convert(config.augment.mix_until),
        stop_after=convert(config.early_stopping.after),
    )


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What a config describes.

    Attributes:
      config: complete: the model's and the dataset's own values are filled in.
      splits: "train", "test" and, where asked for, "val" and "subset_test".
      mesh: the devices.
      num_slices: a batch is computed in that many, one after another.
      root_key: the run's only random key.
      init_state: () -> the state before the first step, on the mesh.
      train_step: (state, batch, root_key, lr_scale) -> (state, metrics); takes a batch
        as `steps.take_batch` gives it. Not compiled yet.
      eval_step: (variables, images uint8) -> logits, compiled on first use.
    """

    config: ConfigDict
    splits: dict[str, data.Dataset]
    plan: Plan
    mesh: Mesh
    model: nn.Module
    num_slices: int
    root_key: Array
    init_state: Callable[[], steps.TrainState]
    train_step: Callable
    eval_step: Callable

    def score(self, variables: Any, split: str) -> Float[np.ndarray, "n classes"]:
        """float32 logits of every image of a split."""
        return scoring.score_split(
            variables,
            self.splits[split].images,
            eval_step=self.eval_step,
            # In equal parts over the devices; filling up costs no accuracy.
            batch_size=math.ceil(self.config.eval_batch_size / self.mesh.size)
            * self.mesh.size,
            mesh=self.mesh,
        )


def resolve_config(config: ConfigDict, train: data.Dataset) -> ConfigDict:
    """A copy that no machine and no later version's tables will read differently."""
    config = config.copy_and_resolve_references()
    for name, value in models.model_settings(config.model).items():
        set_value(config, f"model.{name}", value)
    if config.model.dtype == "auto":
        on_cpu = jax.default_backend() == "cpu"
        set_value(config, "model.dtype", "float32" if on_cpu else "bfloat16")
    mean, std = data.normalization(config.data, train)
    set_value(config, "data.mean", mean)
    set_value(config, "data.std", std)
    return config


def _num_slices(
    config: ConfigDict, model: nn.Module, image_shape: tuple[int, int, int]
) -> int:
    """Slices a batch is computed in: the setting, or what a single CPU is fastest with.

    Its caches then hold a slice's activations: ViT-Tiny's step takes 0.8 to 0.9 times
    as long in four (experiments/benchmarks). Not where BatchNorm would see them, or
    where compiling them takes longer than they save. Being this machine's, the number
    is no setting, and a run may go on with another one elsewhere.
    """
    asked, batch_size = config.optim.accumulate_steps, config.batch_size
    alone_on_cpu = jax.default_backend() == "cpu" and jax.device_count() == 1
    if asked > 1 or not alone_on_cpu or not isinstance(model, models.ViT):
        return asked
    macs = batch_size * models.count_macs(model, image_shape)
    sizes = [n for n in (2, 4) if not batch_size % n and macs >= n * _MIN_SLICE_MACS]
    return max(sizes, default=1)


def _check_selection(config: ConfigDict, splits: dict[str, data.Dataset]) -> None:
    """Refuses rules that wait for evaluations where there are none."""
    if "val" in splits:
        return
    asked = {
        "config.schedule.name=plateau": config.schedule.name == "plateau",
        "config.early_stopping.patience": config.early_stopping.patience,
        "config.early_stopping.target": config.early_stopping.target is not None,
    }
    for key, is_asked in asked.items():
        if is_asked:
            raise UserError(
                f"{key} needs evaluations during training, but config.data.validation "
                "is 0 and nothing is held out; hold images out or switch it off."
            )


def make_experiment(config: ConfigDict, splits: dict[str, data.Dataset]) -> Experiment:
    """Builds model, optimizer, augmentation and steps. Compiles nothing.

    Raises:
      UserError: settings that do not fit each other, the data or the devices.
    """
    train = splits["train"]
    config = resolve_config(config, train)
    image_shape, num_classes = train.images.shape[1:], len(train.class_names)
    mesh = meshes.make_mesh(config.num_devices)
    meshes.check_batch_size(
        config.batch_size, mesh.size * config.optim.accumulate_steps
    )
    _check_selection(config, splits)
    plan = make_plan(config, len(train.images))
    model = models.make_model(
        config.model,
        num_classes=num_classes,
        image_shape=image_shape,
        dtype=config.model.dtype,
    )
    num_slices = _num_slices(config, model, image_shape)
    schedule = optim.make_schedule(
        config.schedule,
        peak=config.optim.learning_rate,
        total_steps=plan.total_steps,
        steps_per_epoch=plan.steps_per_epoch,
    )
    optimizer = optim.make_optimizer(config.optim, schedule)
    normalize = functools.partial(
        augment.normalize, mean=config.data.mean, std=config.data.std
    )
    root_key = jax.random.key(config.seed)
    init_state = functools.partial(
        steps.init_state,
        model=model,
        optimizer=optimizer,
        image_shape=image_shape,
        use_ema=config.optim.ema_decay > 0,
    )
    return Experiment(
        config=config,
        splits=splits,
        plan=plan,
        mesh=mesh,
        model=model,
        num_slices=num_slices,
        root_key=root_key,
        init_state=_place_state(init_state, root_key, mesh, split=config.shard_params),
        train_step=functools.partial(
            steps.train_step,
            model=model,
            optimizer=optimizer,
            schedule=schedule,
            augment=make_augment(config, plan, num_classes, config.seed),
            accumulate_steps=num_slices,
            ema_decay=config.optim.ema_decay,
            label_smoothing=config.augment.label_smoothing,
            unroll=jax.default_backend() == "cpu",
        ),
        eval_step=scoring.make_eval_step(model, normalize, mesh),
    )


def make_augment(
    config: ConfigDict, plan: Plan, num_classes: int, seed: int | UInt32[Array, ""]
) -> Callable:
    """`augment.make_augment` for a resolved config; `seed` is of alternating flips."""
    return augment.make_augment(
        config.augment,
        mean=config.data.mean,
        std=config.data.std,
        num_classes=num_classes,
        mix_until_step=plan.mix_until,
        seed=seed,
    )


def _place_state(
    init_state: Callable, root_key: Array, mesh: Mesh, *, split: bool
) -> Callable[[], steps.TrainState]:
    """`init_state` of `root_key`, whose arrays come into being where they belong."""
    shardings = meshes.replicated(mesh)
    if split:
        shardings = meshes.split_state(mesh, jax.eval_shape(init_state, root_key))
    # The key is an argument: one compilation serves all seeds.
    return functools.partial(jax.jit(init_state, out_shardings=shardings), root_key)


def summarize(experiment: Experiment, num_params: int) -> str:
    """What is about to happen, for a person: device, data, model and schedule."""
    config, plan, mesh = experiment.config, experiment.plan, experiment.mesh
    splits = experiment.splits
    image_shape = splits["train"].images.shape[1:]
    device = mesh.devices.flat[0]
    gflops = 2e-9 * models.count_macs(experiment.model, image_shape)
    sizes = ", ".join(
        f"{name} {len(split.images):,}"
        for name, split in splits.items()
        if not (name == "val" and split is splits["test"])
    )
    selected = {
        "val": "selects on the hold-out",
        "test": "selects on the test split",
        "nothing": "selects nothing: the last step is scored",
    }[config.data.select_on]
    shape = "x".join(map(str, image_shape))
    epochs = plan.total_steps / plan.steps_per_epoch
    rows = {
        "device": f"{mesh.size} x {device.device_kind} ({device.platform}), "
        f"{config.model.dtype} computation",
        "data": f"{config.data.source} {config.data.name}, {shape} images: {sizes}; "
        f"{selected}",
        "model": f"{config.model.name}, {num_params:,} parameters, "
        f"{gflops:.3g} GFLOPs forward per image",
        "schedule": f"{plan.total_steps:,} steps of {config.batch_size} images "
        f"({epochs:.4g} epochs), {config.optim.name}, peak rate "
        f"{config.optim.learning_rate:g}, {config.schedule.name}",
    }
    return "\n".join(f"{name:>9}  {text}" for name, text in rows.items())
