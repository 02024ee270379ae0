"""A whole run, from its config to its results."""

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
from vit_jax.training import dispatch, scoring
from vit_jax.training.experiment import Experiment, make_experiment
from vit_jax.training.history import History
from vit_jax.training.loop import Loop, is_finished
from vit_jax.training.profile import Profiler
from vit_jax.training.progress import say
from vit_jax.training.summary import summarize
from vit_jax.training.train_state import TrainState


def train_and_evaluate(
    config: ConfigDict,
    workdir: str | os.PathLike,
    *,
    resume_with_changes: bool = False,
    profile: bool = False,
) -> dict[str, Any]:
    """Trains what `config` describes, or resumes it, and scores the best checkpoint.

    A run that is interrupted at any step and resumed ends with the same parameters,
    bit for bit, as an uninterrupted one on the same kind and number of devices. This is
    tested on CPU; on a GPU a new compilation may choose kernels that round differently.

    Args:
      workdir: the run's folder; see `vit_jax.runs.folder`.
      resume_with_changes: resumes although the folder's config differs.
      profile: records a profile of a few dispatches into the folder, under profile/.

    Returns:
      The content of results.json.

    Raises:
      UserError: the config, the data or the folder has a mistake, before anything is
        compiled; or the loss is not finite.
      Interrupted: the process received a signal; the state is saved.
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
    # Several processes on one host would write the same file.
    profiler = None
    if profile and processes.is_primary():
        profiler = Profiler(folder.path / "profile")
    with StopSignals() as signals, Checkpoints(folder.checkpoints) as checkpoints:
        state, history = _restore_or_init(experiment, checkpoints)
        # Restoring has checked that the state fits the settings.
        folder.start(experiment.config, dataset)
        say(summarize(experiment, models.count_params(state.params)))
        if config.parameter_overview:
            from clu import parameter_overview

            say(parameter_overview.get_parameter_overview(state.params))
        if is_finished(experiment, history, int(state.step)):
            results = processes.broadcast_from_primary(
                lambda: folder.read("results") if folder.has("results") else {}
            )
            if results.get("num_steps") == int(state.step):
                return results
        folder.forget_metrics_after(int(state.step))
        explained = dispatch.explain_out_of_memory(experiment.config)
        with explained, profiler or contextlib.nullcontext():
            if not is_finished(experiment, history, int(state.step)):
                program = dispatch.compile_training(experiment, state)
                say(
                    f"compiled in {program.compile_seconds:.1f} s, "
                    f"{max(program.compiled)} step(s) a dispatch"
                )
                history.compile_seconds += program.compile_seconds
                loop = Loop(experiment, folder, checkpoints, program, state, history)
                loop.run(signals, profiler)
                state = loop.state
            results = _score_best(experiment, checkpoints, state, history)
    folder.write("results", results)
    if not processes.is_primary():
        return results
    # Imported late, because Matplotlib takes a second to load.
    from vit_jax.training import curves

    curves.save_history(folder)
    return results


def _restore_or_init(
    experiment: Experiment, checkpoints: Checkpoints
) -> tuple[TrainState, History]:
    """The newest saved state and its history, or the initial ones."""
    state = experiment.init_state()
    if checkpoints.latest_step is not None:
        state, metadata = checkpoints.restore("latest", state)
        say(f"resuming from step {int(state.step)}")
        return state, History(**metadata)
    return state, History()


def _score_best(
    experiment: Experiment,
    checkpoints: Checkpoints,
    state: TrainState,
    history: History,
) -> dict[str, Any]:
    """Restores the selected checkpoint and scores it.

    With `config.data.select_on` other than "test", this is the only use of the test
    split.
    """
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
        "val": None,  # Replaced below where images are held out.
    }
    for name, split in splits.items():
        if name != "train":
            logits = experiment.score(best.variables, name)
            results[name] = scoring.describe_scores(logits, split)
    return results | {
        "num_steps": int(state.step),
        "num_epochs": round(int(state.step) / experiment.plan.steps_per_epoch, 4),
        "seed": config.seed,
        "compile_seconds": history.compile_seconds,
        "train_seconds": history.train_seconds,
        "images_per_second": num_images / history.train_seconds,
        "device": device.device_kind,
        "num_devices": experiment.mesh.size,
    }
