"""A whole run, from its config to its results."""

import contextlib
import dataclasses
import importlib
import os
from collections.abc import Mapping
from typing import Any

import jax
from ml_collections import ConfigDict

from vit_jax import data, models
from vit_jax.config import check_config, make_config
from vit_jax.config.stages import naming_stage
from vit_jax.config.values import require_switched_on
from vit_jax.errors import UserError
from vit_jax.parallel import processes
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.run import Run
from vit_jax.runs.user_code import add_user_code
from vit_jax.training import dispatch, linear_probe, masked, scoring, time_budget
from vit_jax.training.experiment import (
    Experiment,
    compile_evaluation,
    make_experiment,
    next_stage,
)
from vit_jax.training.history import History
from vit_jax.training.loop import Loop, is_finished
from vit_jax.training.profile import Profiler
from vit_jax.training.progress import say, waiting
from vit_jax.training.results import keep_scores, score_best
from vit_jax.training.start import FirstWeights, with_variables
from vit_jax.training.summary import describe_stage, summarize
from vit_jax.training.teacher import load_teacher, require_teacher
from vit_jax.training.train_state import TrainState


def train_and_evaluate(
    config: ConfigDict | Mapping[str, Any],
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
      config: of `vit_jax.load_config`, or a mapping of settings.
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
    config = processes.run_on_all(lambda: _read_settings(config))
    require_teacher(config)
    require_switched_on(config, "pretrained.path", "the weights' file or run folder")
    folder = RunFolder(workdir)
    # Before the folder is made, so that a mistake leaves none behind.
    say(f"loading {data.dataset_name(config.data)} ...")
    splits = processes.run_on_all(lambda: data.load(config.data))
    dataset = scoring.describe_dataset(splits)
    # Processes with other settings would wait for each other in what follows.
    folder.require_same_start(config, dataset, resume_with_changes)
    config = _with_saved_dtype(config, folder)
    if config.tensorboard:
        processes.run_on_all(lambda: importlib.import_module("tensorboardX"))
    teacher, weights = load_teacher(config.distill), FirstWeights(folder)
    config = time_budget.set_num_steps(
        config, splits, folder, resume_with_changes, teacher, weights.read
    )
    experiment = processes.run_on_all(lambda: _make_first(config, splits, teacher))
    filled = weights.fill(config, experiment)
    if filled != experiment.config:
        experiment = processes.run_on_all(lambda: _make_first(filled, splits, teacher))
    with folder.locked():
        return _train_and_evaluate(
            experiment, dataset, weights, folder, resume_with_changes, profile
        )


def _train_and_evaluate(
    experiment: Experiment,
    dataset: dict[str, Any],
    weights: FirstWeights,
    folder: RunFolder,
    resume_with_changes: bool,
    profile: bool,
) -> dict[str, Any]:
    """`train_and_evaluate` in a locked folder; `dataset` describes the splits."""
    folder.require_same_start(experiment.config, dataset, resume_with_changes)
    changes = _accept_changes(experiment, dataset, folder, resume_with_changes)
    # Several processes on one host would write the same file.
    profiler = None
    if profile and processes.is_primary():
        profiler = Profiler(folder.path / "profile")
    with Checkpoints(folder.checkpoints) as checkpoints:
        experiment, state, history = _restore_or_init(
            experiment, weights, folder, checkpoints
        )
        say(summarize(experiment, models.count_params(state.params)))
        if experiment.config.parameter_overview:
            from clu import parameter_overview

            say(parameter_overview.get_parameter_overview(state.params))
        if _is_done(experiment, history, int(state.step)):
            if changes:
                raise UserError(
                    f"{folder.path} holds a run of {int(state.step):,} steps, after "
                    f"which other settings ({changes}) would train none; give "
                    f"{_what_lengthens(experiment, history, int(state.step))}another "
                    "--workdir."
                )
            if profile:
                say("--profile has recorded nothing, because no step is left to do")
            results = processes.broadcast_from_primary(folder.read_results)
            if results.get("num_steps") == int(state.step):
                # A start may have ended before its figure was drawn.
                curves = folder.figures / "training_curves.png"
                if processes.is_primary() and not curves.exists():
                    _draw_curves(folder)
                return results
        # Restoring has checked that the state fits the settings.
        changed = changes and f"after step {int(state.step)}: {changes}"
        folder.start(experiment.config, dataset, changed)
        folder.forget_metrics_after(int(state.step))
        folder.forget_scores_after(int(state.step))
        explained = dispatch.explain_out_of_memory(experiment)
        with explained, profiler or contextlib.nullcontext():
            run = (experiment, folder, checkpoints, state, history)
            if experiment.config.linear_probe:
                state = linear_probe.train_probe(*run)
            else:
                experiment, state = _train_stages(*run, profiler)
            if profiler and not profiler.has_begun:
                say(
                    "--profile has recorded nothing, because it begins with the third "
                    "dispatch of steps, and fewer were left to do"
                )
            scored = score_best(experiment, checkpoints, state, history)
            if experiment.scoring is masked:
                masked.save_reconstructions(folder, experiment, state.variables)
        before = processes.broadcast_from_primary(folder.read_results)
        results = keep_scores(before, scored, checkpoints.steps())
    folder.write("results", results)
    if before.get("best_step") != results["best_step"]:
        _tell_of_an_old_report(folder)
    if processes.is_primary():
        _draw_curves(folder)
    return results


def _accept_changes(
    experiment: Experiment,
    dataset: dict[str, Any],
    folder: RunFolder,
    resume_with_changes: bool,
) -> str:
    """What differs from the settings in the folder; refused unless it is asked for."""
    # `evaluate` also writes scores of a run that is not finished.
    if "num_steps" in folder.read_results() and not folder.has_checkpoints():
        raise UserError(
            f"{folder.path} has the results of a training, but its checkpoints are "
            "gone; restore checkpoints/ from a copy, or give another --workdir to "
            "train again."
        )
    changes = "; ".join(folder.changes(experiment.config, dataset))
    if changes and not resume_with_changes:
        raise UserError(
            f"{folder.path} holds a run with other settings ({changes}); give another "
            "--workdir, the same settings, or --resume_with_changes (in Python "
            "resume_with_changes=True)."
        )
    if changes:
        say(f"resuming with other settings: {changes}")
    return changes


def _tell_of_an_old_report(folder: RunFolder) -> None:
    for name, command in (("report.html", "evaluate"), ("explain.json", "explain")):
        if (folder.path / name).exists():
            say(
                f"{name} and its figures are of an earlier checkpoint; python -m "
                f"vit_jax.{command} makes them anew"
            )


def _draw_curves(folder: RunFolder) -> None:
    """Writes the figures of metrics.jsonl."""
    # Imported late, because Matplotlib takes a second to load.
    from vit_jax.figures import style
    from vit_jax.training import curves

    for name, figure in curves.draw_history(folder).items():
        style.save(figure, folder.figures / f"{name}.png")


def _read_settings(config: ConfigDict | Mapping[str, Any]) -> ConfigDict:
    """The complete config, checked; the user's own code has joined the tables."""
    config = make_config(config)
    check_config(config)
    add_user_code(config.code)
    return config


def _with_saved_dtype(config: ConfigDict, folder: RunFolder) -> ConfigDict:
    """A config whose dtype is "auto" gets that of the run in the folder, if there is
    one: this machine might choose another one than the machine that began the run."""
    if config.model.dtype != "auto":
        return config
    saved = processes.broadcast_from_primary(
        lambda: folder.is_started() and make_config(folder.read("config")).model.dtype
    )
    config = config.copy_and_resolve_references()
    config["model.dtype"] = saved or "auto"
    return config


def _make_first(
    config: ConfigDict, splits: dict[str, data.Dataset], teacher: Run | None
) -> Experiment:
    """The experiment of the first stage; those of the others are checked as well."""
    with naming_stage(0, config.stages[0] if config.stages else ()):
        experiment = make_experiment(config, splits, teacher=teacher)
    # A linear probe has replaced the stages by now.
    config, splits = experiment.config, experiment.splits
    for index in range(1, len(config.stages)):
        with naming_stage(index, config.stages[index]):
            make_experiment(config, splits, index, teacher=teacher)
    return experiment


def _is_done(experiment: Experiment, history: History, step: int) -> bool:
    if experiment.config.linear_probe:
        return history.train_seconds > 0
    return experiment.is_last and is_finished(experiment, history, step)


def _what_lengthens(experiment: Experiment, history: History, step: int) -> str:
    """For a message: the setting that would let a finished run go on, and "or "."""
    if experiment.config.linear_probe:
        return ""
    key = "num_steps" if experiment.stage_config.num_steps else "num_epochs"
    if step < experiment.plan.last_step:
        has_reached = history.has_reached(experiment.stage_config.early_stopping.target)
        key = f"early_stopping.{'target' if has_reached else 'patience'}"
    stage = f"stages.{experiment.stage}." if experiment.config.stages else ""
    return f"a larger config.{stage}{key}, or "


def _restore_or_init(
    experiment: Experiment,
    weights: FirstWeights,
    folder: RunFolder,
    checkpoints: Checkpoints,
) -> tuple[Experiment, TrainState, History]:
    """The newest saved state, its history and stage, or those of the beginning."""
    if checkpoints.latest_step is not None:
        history = History(**checkpoints.metadata("latest"))
        begun, asked = len(history.stage_starts), len(experiment.config.stages or [{}])
        if begun > asked:
            raise UserError(
                f"{folder.path} holds a run in its stage {begun}, but config.stages "
                f"has {asked} now; give at least as many stages, or another --workdir."
            )
        ended = begun - 1
        saved = make_config(folder.read("config"))
        if saved.stages[:ended] != experiment.config.stages[:ended]:
            raise UserError(
                f"{folder.path} has trained the first {ended} of config.stages to "
                "their ends, so their settings can no longer change; give those of its "
                "config.json, or another --workdir."
            )
        for start in history.stage_starts[1:]:
            experiment = next_stage(experiment, start)
        state, _ = checkpoints.restore("latest", experiment.state_shapes)
        say(f"resuming from step {int(state.step)}")
        return experiment, state, history
    if folder.has("config"):
        # They are of a former run, whose checkpoints were deleted.
        folder.remove("results")
    state = experiment.init_state()
    if experiment.config.pretrained.path:
        variables, report = weights.read(experiment)
        folder.write("pretrained", dataclasses.asdict(report))
        say(str(report))
        state = with_variables(state, variables)
    else:
        # A start from weights may have ended here before its first checkpoint.
        folder.remove("pretrained")
    return experiment, state, History()


def _train_stages(
    experiment: Experiment,
    folder: RunFolder,
    checkpoints: Checkpoints,
    state: TrainState,
    history: History,
    profiler: Profiler | None,
) -> tuple[Experiment, TrainState]:
    """Trains what is left of the stages; returns the last one and its last state."""
    # Here, where a signal ends the process at once, and not in the loop.
    with waiting("compiling the evaluation"):
        experiment = compile_evaluation(experiment)
    while True:
        if not is_finished(experiment, history, int(state.step)):
            # The loop is not kept: its images would stay on the devices.
            run = (experiment, folder, checkpoints, state, history)
            state = Loop(*run).run(profiler)
        if experiment.is_last:
            return experiment, state
        experiment = next_stage(experiment, first_step=int(state.step))
        history.stage_starts.append(int(state.step))
        # Parameters, statistics and averages go on; the optimizer starts anew. Whoever
        # called this may hold the old one's state, which is freed all the same.
        for array in jax.tree.leaves(state.opt_state):
            array.delete()
        opt_state = experiment.init_state().opt_state
        state = dataclasses.replace(state, opt_state=opt_state)
        say(describe_stage(experiment))
