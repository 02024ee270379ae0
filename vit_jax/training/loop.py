"""The training loop."""

import contextlib
import dataclasses
import math
from typing import NoReturn

import jax
import numpy as np
from jaxtyping import Array

from vit_jax.parallel import mesh as meshes
from vit_jax.parallel import processes
from vit_jax.parallel.processes import Requests
from vit_jax.parallel.signals import Interrupted, StopSignals
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.folder import RunFolder
from vit_jax.training import dispatch
from vit_jax.training.experiment import Experiment
from vit_jax.training.history import History
from vit_jax.training.logs import TrainClock, TrainLog, diverged
from vit_jax.training.profile import Profiler
from vit_jax.training.progress import Progress, say, waiting
from vit_jax.training.train_state import TrainState


def is_finished(experiment: Experiment, history: History, step: int) -> bool:
    """Whether `step` is the stage's last, by its length or by early stopping."""
    plan, rule = experiment.plan, experiment.stage_config.early_stopping
    may_stop = history.last_evaluated_step >= plan.first_step + plan.stop_after
    return step >= plan.last_step or (may_stop and history.should_stop(rule))


class Loop:
    """One stage, from a state to its last step, with evaluations and checkpoints."""

    def __init__(
        self,
        experiment: Experiment,
        folder: RunFolder,
        checkpoints: Checkpoints,
        state: TrainState,
        history: History,
    ):
        """Compiles the train steps."""
        with waiting("compiling the train step"):
            program = dispatch.compile_training(experiment)
        at_once = f" ({program.size} steps at once)" if program.size > 1 else ""
        say(
            f"compiled in {program.compile_seconds:.1f} s; waiting for the first step"
            f"{at_once}"
        )
        history.compile_seconds += program.compile_seconds
        self._state, self._step = state, int(state.step)
        self._experiment, self._history = experiment, history
        self._checkpoints, self._program = checkpoints, program
        config, plan = experiment.config, experiment.plan
        self._requests = Requests(plan.checkpoint_seconds)
        self._progress = Progress(plan.last_step, self._step, plan.log_every)
        tensorboard = None
        if config.tensorboard and processes.is_primary():
            # It imports PyTorch where that is installed, which takes seconds.
            from tensorboardX import SummaryWriter

            path = str(folder.path / "tensorboard")
            # Steps that are repeated after a kill replace those of before.
            first = self._step + 1
            tensorboard = SummaryWriter(path, flush_secs=1, purge_step=first)
        self._log = TrainLog(
            folder,
            self._progress,
            batch_size=config.batch_size,
            steps_per_epoch=plan.steps_per_epoch,
            clock=TrainClock(history.train_seconds, history.cpu_seconds),
            tensorboard=tensorboard,
        )

    def run(self, profiler: Profiler | None) -> TrainState:
        """Trains to the stage's last step; the state returned is evaluated and saved.

        Raises:
          Interrupted: the process received a signal; the state is saved.
        """
        with contextlib.closing(self._log), StopSignals() as signals:
            self._run(signals, profiler)
        # A signal that came after the last dispatch has not stopped the loop.
        if signals.received is not None and not self._experiment.is_last:
            raise Interrupted(self._step, signals.received)
        signals.deliver()
        return self._state

    def _run(self, signals: StopSignals, profiler: Profiler | None) -> None:
        experiment, plan, log = self._experiment, self._experiment.plan, self._log
        program, split = self._program, experiment.evaluated_split
        lr_scale, interval_ended = self._put_lr_scale(), True
        dispatches = dispatch.plan_dispatches(plan, self._step, program.size)
        stream = program.pipeline.stream(dispatches, program.size)
        # JAX then refuses every copy between host and device that is not explicit.
        with contextlib.closing(stream), jax.transfer_guard("disallow"):
            for num_steps, batches in stream:
                signal_number, save_is_due = self._requests.granted(
                    signals.received or 0, exchange=interval_ended
                )
                if signal_number:
                    self._interrupt(signal_number)
                if profiler:
                    profiler.before_dispatch(log.paused, self._progress.line)
                self._state, metrics = program.compiled(self._state, batches, lr_scale)
                self._step += num_steps
                log.add(self._step, num_steps, metrics)
                # A dispatch that passes the end of an interval ends it.
                since_start = self._step - plan.first_step
                interval_ended = since_start % plan.log_every < num_steps
                if interval_ended:
                    log.end_interval()
                evaluates = split and plan.is_due(self._step, plan.eval_every)
                saves = save_is_due or plan.is_due(self._step, plan.checkpoint_every)
                if not evaluates and not saves:
                    continue
                # A loss that is not finite ends the run here, before a checkpoint.
                with log.paused():
                    if profiler:
                        profiler.stop(self._progress.line)
                    if evaluates:
                        self._evaluate_and_save(saves)
                        lr_scale = self._put_lr_scale()
                    else:
                        self._save()
                if is_finished(experiment, self._history, self._step):
                    break
        if self._step < plan.last_step:
            self._progress.line(
                f"stopped early at step {self._step} of {plan.last_step}, as "
                "config.early_stopping says"
            )
        self._progress.close()
        self._checkpoints.wait()

    def _put_lr_scale(self) -> Array:
        scale = self._history.lr_scale(self._experiment.stage_config.schedule)
        return meshes.put(np.float32(scale), meshes.replicated(self._experiment.mesh))

    def _evaluate_and_save(self, is_due: bool) -> None:
        """Scores "val"; saves a checkpoint if one is due, or if it is the best or the
        last because the stage stops early. Raises UserError if the loss is not finite.
        """
        experiment, plan, step = self._experiment, self._experiment.plan, self._step
        schedule = experiment.stage_config.schedule
        scale_before = self._history.lr_scale(schedule)
        scores = experiment.evaluate(self._state.variables)
        split = experiment.evaluated_split
        self._history.add_evaluation(step, scores)
        self._log.record(
            {"step": step, "split": split, **scores, **self._log.clock.times()}
        )
        if not math.isfinite(scores["loss"]):
            # Before such a state is saved, from which no training could go on.
            raise diverged(f"The {split} loss is {scores['loss']} after step {step}")
        accuracy = scores["accuracy"]
        shown = "" if accuracy is None else f"{split} accuracy {accuracy:.2%}, "
        self._progress.line(
            f"step {step}/{plan.last_step}: {shown}{split} loss {scores['loss']:.4f} "
            f"(epoch {step / plan.steps_per_epoch:.1f})"
        )
        finished = is_finished(experiment, self._history, step)
        scale = self._history.lr_scale(schedule)
        if scale != scale_before and not finished:
            self._progress.line(
                f"the learning rate is now {scale:.3g} times the schedule's peak, by "
                f"config.schedule.plateau_patience={schedule.plateau_patience}"
            )
        if is_due or finished or self._checkpoints.would_be_best(**scores):
            self._save(**scores)

    def _save(self, accuracy: float | None = None, loss: float | None = None) -> None:
        clock = self._log.clock
        self._history.train_seconds = clock.seconds
        self._history.cpu_seconds = clock.cpu_seconds
        metadata = dataclasses.asdict(self._history)
        self._checkpoints.save(
            self._step, self._state, metadata=metadata, accuracy=accuracy, loss=loss
        )
        # The save may have waited for the one before, however long that took.
        self._requests.saved()

    def _interrupt(self, signal_number: int) -> NoReturn:
        self._log.drain()
        self._save()
        self._checkpoints.wait()
        self._progress.close()
        raise Interrupted(self._step, signal_number)
