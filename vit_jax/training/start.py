"""The state in which a run, or the next stage of a run, starts."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import traverse_util
from ml_collections import ConfigDict

from vit_jax import augment, models
from vit_jax.errors import UserError, shorten
from vit_jax.parallel import processes
from vit_jax.pretrained import Report, Weights, load_pretrained
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run
from vit_jax.runs.run import Run
from vit_jax.runs.user_code import own_tables
from vit_jax.training.experiment import Experiment
from vit_jax.training.train_state import TrainState, key_for


def with_variables(state: TrainState, variables: dict[str, Any]) -> TrainState:
    """Replaces the initial "params" and "batch_stats" by others, on the host or not."""
    old = {"params": state.params, "batch_stats": state.batch_stats}
    new = jax.tree.map(lambda x, y: jax.device_put(x, y.sharding), variables, old)
    # A copy, because a donated state must not hold one buffer twice.
    ema = None if state.ema is None else jax.tree.map(jnp.copy, new)
    return dataclasses.replace(state, **new, ema=ema)


def pretrained_variables(
    experiment: Experiment, own: Run | None
) -> tuple[dict[str, Any], Report]:
    """The weights that `config.pretrained` names, fitted to the model.

    Args:
      own: `load_own_run` of their path.

    Returns:
      {"params", "batch_stats"} as host arrays, and what became of each tensor.

    Raises:
      UserError: the weights cannot be read, or do not fit the model.
    """
    asked, model = experiment.config.pretrained, experiment.model
    train = experiment.splits["train"]
    keeps_head = own is not None and asked.head == "keep"
    if keeps_head and own.class_names != tuple(train.class_names):
        raise UserError(
            f"The run {own.workdir} knows the classes {shorten(own.class_names, 10)}, "
            f"but the data have {shorten(train.class_names, 10)}; a head that is kept "
            "must have the same classes in the same order, so set "
            "config.pretrained.head=fresh."
        )
    shape = train.images.shape[1:]
    image_shape = augment.input_shape(shape, experiment.config.data.resize)
    key = key_for(experiment.root_key, "init", 0)
    params, report = load_pretrained(
        asked.path if own is None else _weights_of(own),
        model,
        image_shape,
        key,
        head=asked.head,
        resize=asked.positions,
        resize_patches=asked.resize_patches,
        grid=asked.grid,
        allow=asked.allow,
    )
    stats = models.init_variables(model, key, image_shape).get("batch_stats", {})
    if own is not None and stats:
        found = own.variables["batch_stats"]
        if jax.tree.map(jnp.shape, found) != jax.tree.map(jnp.shape, stats):
            raise UserError(
                f"The BatchNorms of the run {own.workdir} are others than the model's; "
                "set config.model to that run's settings."
            )
        stats = jax.device_get(found)
    return {"params": params, "batch_stats": stats}, report


class FirstWeights:
    """Reads the pretrained weights before the run's folder is made.

    A mistake in them then leaves no folder behind, and nothing has been compiled.
    """

    def __init__(self, folder: RunFolder):
        self._is_fresh = processes.broadcast_from_primary(
            lambda: not folder.has_checkpoints()
        )
        self._folder = folder
        self._found: tuple[dict[str, Any], Report] | None = None

    def fill(self, config: ConfigDict, experiment: Experiment) -> ConfigDict:
        """Fills norm_eps and activation from the pretrained model where the config has
        None.

        No tensor shows these two settings. A run that is resumed has them in its
        config.json.

        Args:
          config: as the user gave it.

        Returns:
          The config of the experiment with these values.

        Raises:
          UserError: as `pretrained_variables` does.
        """
        filled = experiment.config.copy_and_resolve_references()
        if not config.pretrained.path:
            return filled
        if found := self.read(experiment):
            origin = found[1].settings
        else:
            read = functools.partial(self._folder.read, "config")
            origin = processes.broadcast_from_primary(read)["model"]
        for name in ("norm_eps", "activation"):
            is_open = config.model[name] is None and filled.model[name] is not None
            if is_open and origin.get(name) is not None:
                filled[f"model.{name}"] = origin[name]
                if found:
                    found[1].differences.pop(name, None)
        return filled

    def read(self, experiment: Experiment) -> tuple[dict[str, Any], Report] | None:
        """Cached result of `pretrained_variables`.

        It is None where config.pretrained names no weights, or where the run is
        resumed and needs them no more.
        """
        if not (self._is_fresh and experiment.config.pretrained.path):
            return None
        if self._found is None:
            # Not in `run_on_all`: the processes open a run's checkpoints together.
            own = load_own_run(experiment.config.pretrained.path)
            self._found = processes.run_on_all(
                lambda: pretrained_variables(experiment, own)
            )
        return self._found


def load_own_run(path: str) -> Run | None:
    """The run whose folder `path` is; None where it is no run folder."""
    folder = RunFolder(path)
    if not (folder.has("dataset") and folder.checkpoints.is_dir()):
        return None
    with own_tables():
        return load_run(path)


def _weights_of(run: Run) -> Weights:
    patch_size, (height, width, _) = run.config.model.patch_size, run.input_shape
    grid = (height // patch_size, width // patch_size) if patch_size else None
    params = jax.device_get(run.variables["params"])
    tensors = traverse_util.flatten_dict(params, sep="/")
    metadata = {**run.config.model.to_dict(), "grid": grid}
    return Weights(str(run.workdir), "vit_jax", run.sha256, tensors, metadata)
