"""A run from its config to its results."""

import contextlib
import os
from typing import Any

from ml_collections import ConfigDict

from vit_jax import data, models
from vit_jax.config import check_config
from vit_jax.parallel import processes
from vit_jax.parallel.signals import StopSignals
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import selected_checkpoint
from vit_jax.training import dispatch, scoring, steps
from vit_jax.training.experiment import Experiment, make_experiment, summarize
from vit_jax.training.history import Journal
from vit_jax.training.loop import Loop, is_finished
from vit_jax.training.profile import Profiler
from vit_jax.training.progress import say


def train_and_evaluate(
    config: ConfigDict,
    workdir: str | os.PathLike,
    *,
    resume_with_changes: bool = False,
    profile: bool = False,
) -> dict[str, Any]:
    """Trains what `config` describes, or resumes it, and scores the best checkpoint.

    A run that was interrupted at any step and is resumed ends with the same bits as
    one that was not, on the same kind and number of devices. (Tested on CPU. On a GPU
    a new compilation may choose kernels that round otherwise.)

    Args:
      workdir: the run's folder; see `vit_jax.runs.folder`.
      resume_with_changes: go on although the folder's config differs.
      profile: also record a few dispatches into the folder, under profile/.

    Returns:
      The content of results.json.

    Raises:
      UserError: a mistake in the config, the data or the folder; nothing was compiled.
        Or the loss is not finite.
      Interrupted: a signal came; the state is saved.
    """
    processes.run_on_all(lambda: check_config(config))
    folder = RunFolder(workdir)
    with folder.locked():
        return _train_and_evaluate(config, folder, resume_with_changes, profile)


def _train_and_evaluate(
    config: ConfigDict, folder: RunFolder, resume_with_changes: bool, profile: bool
) -> dict[str, Any]:
    experiment = processes.run_on_all(
        lambda: make_experiment(config, data.load(config.data))
    )
    dataset = scoring.describe_dataset(experiment.splits)
    folder.require_same_start(experiment.config, dataset, resume_with_changes)
    if not resume_with_changes:
        folder.require_same(experiment.config, dataset)
    # Of several processes on one host, all would write the same file.
    profiler = None
    if profile and processes.is_primary():
        profiler = Profiler(folder.path / "profile")
    with StopSignals() as signals, Checkpoints(folder.checkpoints) as checkpoints:
        state, journal = _restore_or_init(experiment, checkpoints)
        # Only now is it known that the state fits the settings.
        folder.start(experiment.config, dataset)
        say(summarize(experiment, models.count_params(state.params)))
        if config.parameter_overview:
            from clu import parameter_overview

            say(parameter_overview.get_parameter_overview(state.params))
        if is_finished(experiment, journal, int(state.step)):
            results = processes.broadcast_from_primary(
                lambda: folder.read("results") if folder.has("results") else {}
            )
            if results.get("num_steps") == int(state.step):
                return results
        folder.forget_metrics_after(int(state.step))
        explained = dispatch.explain_out_of_memory(experiment.config)
        with explained, profiler or contextlib.nullcontext():
            if not is_finished(experiment, journal, int(state.step)):
                loop = Loop(experiment, folder, checkpoints, state, journal)
                loop.run(signals, profiler)
                state = loop.state
            results = _score_best(experiment, checkpoints, state, journal)
    folder.write("results", results)
    if not processes.is_primary():
        return results
    # Matplotlib takes a second to load, which no start has to wait for.
    from vit_jax.training import curves

    curves.save_history(folder)
    return results


def _restore_or_init(
    experiment: Experiment, checkpoints: Checkpoints
) -> tuple[steps.TrainState, Journal]:
    """The newest saved state and its journal, or the initial ones."""
    state = experiment.init_state()
    if checkpoints.latest_step is not None:
        state, metadata = checkpoints.restore("latest", state)
        say(f"resuming from step {int(state.step)}")
        return state, Journal(**metadata)
    return state, Journal()


def _score_best(
    experiment: Experiment,
    checkpoints: Checkpoints,
    state: steps.TrainState,
    journal: Journal,
) -> dict[str, Any]:
    """Restores the selected checkpoint and scores it: the test split's only use."""
    config, splits = experiment.config, experiment.splits
    num_images = int(state.step) * config.batch_size
    best, _ = checkpoints.restore(selected_checkpoint(config), state)
    device = experiment.mesh.devices.flat[0]
    results = {
        "model": config.model.name,
        "num_params": models.count_params(state.params),
        "num_trainable_params": models.count_params(state.params),
        "selected_on": config.data.select_on,
        "best_step": int(best.step),
        "best_epoch": round(int(best.step) / experiment.plan.steps_per_epoch, 4),
        "val": None,  # Where nothing is held out.
    }
    for name, split in splits.items():
        if name != "train":
            logits = experiment.score(best.variables, name)
            results[name] = scoring.describe_scores(logits, split)
    return results | {
        "num_steps": int(state.step),
        "num_epochs": round(int(state.step) / experiment.plan.steps_per_epoch, 4),
        "seed": config.seed,
        "compile_seconds": journal.compile_seconds,
        "train_seconds": journal.train_seconds,
        "images_per_second": num_images / journal.train_seconds,
        "device": device.device_kind,
        "num_devices": experiment.mesh.size,
    }
