"""The only training loop."""

import contextlib
import dataclasses
import os
import time
from typing import Any, NoReturn

import jax
import numpy as np
from jaxtyping import Array
from ml_collections import ConfigDict

from vit_jax import agreement, data, dispatch, models, scoring, steps
from vit_jax import mesh as meshes
from vit_jax.checkpoint import Checkpoints
from vit_jax.config import check_config
from vit_jax.experiment import Experiment, make_experiment, summarize
from vit_jax.feed import Feed
from vit_jax.folder import RunFolder
from vit_jax.journal import Journal
from vit_jax.logs import TrainLog, tensorboard_writer
from vit_jax.metrics import classification
from vit_jax.profile import Profiler
from vit_jax.progress import Progress, say
from vit_jax.signals import Interrupted, StopSignals


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
      workdir: the run's folder; see `vit_jax.folder`.
      resume_with_changes: go on although the folder's config differs.
      profile: also record a few dispatches into the folder, under profile/.

    Returns:
      The content of results.json.

    Raises:
      UserError: a mistake in the config, the data or the folder; nothing was compiled.
        Or the loss is not finite.
      Interrupted: a signal came; the state is saved.
    """
    agreement.run_on_all(lambda: check_config(config))
    folder = RunFolder(workdir)
    with folder.locked():
        return _train_and_evaluate(config, folder, resume_with_changes, profile)


def _train_and_evaluate(
    config: ConfigDict, folder: RunFolder, resume_with_changes: bool, profile: bool
) -> dict[str, Any]:
    experiment = agreement.run_on_all(
        lambda: make_experiment(config, data.load(config.data))
    )
    dataset = scoring.describe_dataset(experiment.splits)
    folder.require_same_start(experiment.config, dataset, resume_with_changes)
    if not resume_with_changes:
        folder.require_same(experiment.config, dataset)
    profiler = Profiler(folder.path / "profile") if profile else None
    with StopSignals() as signals, Checkpoints(folder.checkpoints) as checkpoints:
        state, journal = _restore_or_init(experiment, checkpoints)
        # Only now is it known that the state fits the settings.
        folder.start(experiment.config, dataset)
        say(summarize(experiment, models.count_params(state.params)))
        if config.parameter_overview:
            from clu import parameter_overview

            say(parameter_overview.get_parameter_overview(state.params))
        if _is_finished(experiment, journal, int(state.step)):
            results = agreement.first_decides(
                lambda: folder.read("results") if folder.has("results") else {}
            )
            if results.get("num_steps") == int(state.step):
                return results
        folder.forget_metrics_after(int(state.step))
        if not _is_finished(experiment, journal, int(state.step)):
            with dispatch.explain_out_of_memory(experiment.config):
                loop = _Loop(experiment, folder, checkpoints, state, journal)
                loop.run(signals, profiler)
                state = loop.state
        results = _score_best(experiment, checkpoints, state, journal)
    folder.write("results", results)
    if not agreement.is_first():
        return results
    # Matplotlib takes a second to load, which no start has to wait for.
    from vit_jax import report

    report.save_history(folder)
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


def _is_finished(experiment: Experiment, journal: Journal, step: int) -> bool:
    """Whether `step` is the last, by length or by an evaluation that ends it early."""
    plan, rule = experiment.plan, experiment.config.early_stopping
    may_stop = journal.last_evaluated_step >= max(0, plan.stop_after)
    return step >= plan.total_steps or (may_stop and journal.should_stop(rule))


class _Loop:
    """Training from a state to the last step, with evaluations and checkpoints."""

    def __init__(
        self,
        experiment: Experiment,
        folder: RunFolder,
        checkpoints: Checkpoints,
        state: steps.TrainState,
        journal: Journal,
    ):
        self.state, self._step = state, int(state.step)
        self._experiment, self._folder = experiment, folder
        self._checkpoints, self._journal = checkpoints, journal
        config, plan = experiment.config, experiment.plan
        self._feed = Feed(experiment.splits["train"], config, experiment.mesh)
        most = dispatch.steps_per_dispatch(config, plan)
        self._dispatches = list(dispatch.plan_dispatches(plan, self._step, most))
        whole = meshes.replicated(experiment.mesh)
        # Not device_put: of several processes, each has to make its own copy.
        copy = jax.jit(lambda key: key, out_shardings=whole)
        self._root_key = copy(experiment.root_key)
        start, sizes = time.monotonic(), {size for _, size in self._dispatches}
        self._train_steps = dispatch.compile_steps(
            experiment, state, self._root_key, self._feed, sizes
        )
        seconds = time.monotonic() - start
        say(f"compiled in {seconds:.1f} s, {max(self._train_steps)} step(s) a dispatch")
        journal.compile_seconds += seconds
        self._progress = Progress(plan.total_steps, self._step)
        write_scalars = None
        if config.tensorboard:
            write_scalars = tensorboard_writer(str(folder.path / "tensorboard"))
        self._log = TrainLog(
            folder,
            self._progress,
            batch_size=config.batch_size,
            steps_per_epoch=plan.steps_per_epoch,
            seconds=journal.train_seconds,
            write_scalars=write_scalars,
        )

    def run(self, signals: StopSignals, profiler: Profiler | None) -> None:
        """Ends with the last step's state in `state`, evaluated and saved.

        Raises:
          Interrupted: a signal came; the state is saved.
        """
        experiment, plan, log = self._experiment, self._experiment.plan, self._log
        lr_scale, interval_ended = self._put_lr_scale(), True
        stream = self._feed.stream(self._dispatches)
        # Inside, every copy between host and device has to be asked for.
        with contextlib.closing(stream), jax.transfer_guard("disallow"):
            for size, batches in stream:
                signal_number = signals.agreed(ask=interval_ended)
                if signal_number is not None:
                    self._interrupt(signal_number)
                if profiler:
                    self._progress.line(profiler.before_dispatch(self.state))
                self.state, metrics = self._train_steps[size](
                    self.state, self._feed.split, batches, self._root_key, lr_scale
                )
                before, self._step = self._step, self._step + size
                log.add(self._step, metrics)
                passed = self._step // plan.log_every - before // plan.log_every
                if interval_ended := passed > 0:
                    log.end_interval()
                is_last = self._step == plan.total_steps
                evaluates = is_last or self._step % plan.eval_every == 0
                if not evaluates and self._step % plan.checkpoint_every:
                    continue
                # A loss that is not finite stops here, before it is saved.
                log.drain()
                if profiler:
                    self._progress.line(profiler.pause(self.state))
                if evaluates:
                    self._evaluate_and_save()
                    lr_scale = self._put_lr_scale()
                else:
                    self._save()
                if _is_finished(experiment, self._journal, self._step):
                    break
                log.resume_clock()
        self._progress.close()
        self._checkpoints.wait()

    def _put_lr_scale(self) -> Array:
        scale = self._journal.lr_scale(self._experiment.config.schedule)
        return meshes.put(np.float32(scale), meshes.replicated(self._experiment.mesh))

    def _evaluate_and_save(self) -> None:
        """Scores "val"; saves a new best, the last step and what the plan asks for."""
        experiment, plan, step = self._experiment, self._experiment.plan, self._step
        logits = experiment.score(self.state.variables, "val")
        labels = experiment.splits["val"].labels
        # Other hosts' CPUs may round otherwise, and too much depends on these.
        scores = agreement.first_decides(
            lambda: {
                "accuracy": classification.accuracy(logits, labels),
                "loss": classification.cross_entropy(logits, labels),
            }
        )
        is_best = self._journal.add_evaluation(step, scores)
        self._log.record(
            {"step": step, "split": "val", **scores, "seconds": self._log.seconds}
        )
        self._progress.line(
            f"epoch {step / plan.steps_per_epoch:.4g}: val accuracy "
            f"{scores['accuracy']:.2%}, val loss {scores['loss']:.4f}"
        )
        is_finished = _is_finished(experiment, self._journal, step)
        if is_best or is_finished or step % plan.checkpoint_every == 0:
            self._save(**scores)

    def _save(self, accuracy: float | None = None, loss: float | None = None) -> None:
        self._journal.train_seconds = self._log.seconds
        metadata = dataclasses.asdict(self._journal)
        self._checkpoints.save(
            self._step, self.state, metadata=metadata, accuracy=accuracy, loss=loss
        )

    def _interrupt(self, signal_number: int) -> NoReturn:
        self._log.drain()
        self._save()
        self._checkpoints.wait()
        self._progress.close()
        raise Interrupted(self._step, signal_number)


def _score_best(
    experiment: Experiment,
    checkpoints: Checkpoints,
    state: steps.TrainState,
    journal: Journal,
) -> dict[str, Any]:
    """Restores the selected checkpoint and scores it: the test split's only use."""
    config, splits = experiment.config, experiment.splits
    num_images = int(state.step) * config.batch_size
    best, _ = checkpoints.restore("best", state)
    selected_on = "test" if splits["val"] is splits["test"] else "val"
    device = experiment.mesh.devices.flat[0]
    results = {
        "model": config.model.name,
        "num_params": models.count_params(state.params),
        "selected_on": selected_on,
        "best_step": int(best.step),
        "best_epoch": round(int(best.step) / experiment.plan.steps_per_epoch, 4),
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
