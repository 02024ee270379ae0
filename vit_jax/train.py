"""The only training loop."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from clu import parameter_overview
from jaxtyping import Array
from ml_collections import ConfigDict

from vit_jax import agreement, data, evaluate, models, report, steps
from vit_jax import mesh as meshes
from vit_jax.checkpoint import Checkpoints
from vit_jax.config import check_config
from vit_jax.data import batches
from vit_jax.experiment import Experiment, make_experiment, summarize
from vit_jax.figures import style
from vit_jax.folder import RunFolder
from vit_jax.journal import Journal
from vit_jax.logs import TrainLog, tensorboard_writer
from vit_jax.metrics import classification
from vit_jax.progress import Progress, say
from vit_jax.signals import Interrupted, StopSignals


def train_and_evaluate(
    config: ConfigDict,
    workdir: str | os.PathLike,
    *,
    resume_with_changes: bool = False,
) -> dict[str, Any]:
    """Trains what `config` describes, or resumes it, and scores the best checkpoint.

    A run that was interrupted at any step and is resumed ends with the same bits as
    one that was not, on the same kind and number of devices. (Tested on CPU. On a GPU
    a new compilation may choose kernels that round otherwise.)

    Args:
      workdir: the run's folder; see `vit_jax.folder`.
      resume_with_changes: go on although the folder's config differs.

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
        return _train_and_evaluate(config, folder, resume_with_changes)


def _train_and_evaluate(
    config: ConfigDict, folder: RunFolder, resume_with_changes: bool
) -> dict[str, Any]:
    experiment = agreement.run_on_all(
        lambda: make_experiment(config, data.load(config.data))
    )
    dataset = evaluate.describe_dataset(experiment.splits)
    folder.require_same_start(experiment.config, dataset, resume_with_changes)
    if not resume_with_changes:
        folder.require_same(experiment.config, dataset)
    with StopSignals() as signals, Checkpoints(folder.checkpoints) as checkpoints:
        state, journal = _restore_or_init(experiment, checkpoints)
        # Only now is it known that the state fits the settings.
        folder.start(experiment.config, dataset)
        say(summarize(experiment, models.count_params(state.params)))
        if config.parameter_overview:
            say(parameter_overview.get_parameter_overview(state.params))
        if _is_finished(experiment, journal, int(state.step)):
            results = agreement.first_decides(
                lambda: folder.read("results") if folder.has("results") else {}
            )
            if results.get("num_steps") == int(state.step):
                return results
        folder.forget_metrics_after(int(state.step))
        state = _train(experiment, folder, checkpoints, signals, state, journal)
        results = _score_best(experiment, checkpoints, state, journal)
    folder.write("results", results)
    if not agreement.is_first():
        return results
    for name, figure in report.draw_history(
        folder.read_metrics(), folder.path.name
    ).items():
        style.save(figure, folder.figures / f"{name}.png")
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


def _compile_step(
    experiment: Experiment, state: steps.TrainState, *arguments: Any
) -> Callable:
    """The train step, compiled for these arguments; the old state's memory is reused.

    The function returned takes (state, split, batch, root_key, lr_scale). `split` is
    (images, labels) of the whole training split on the device, and `batch` then holds
    "indices" and "epochs" only; or None, and `batch` is whole.
    """

    def step(state, split, batch, root_key, lr_scale):
        if split is not None:
            batch = steps.take_batch(*split, **batch)
        return experiment.train_step(state, batch, root_key, lr_scale)

    whole = meshes.replicated(experiment.mesh)
    parts = meshes.split_batch(experiment.mesh)
    jitted = jax.jit(
        step,
        in_shardings=(whole, whole, parts, whole, whole),
        out_shardings=whole,
        donate_argnums=0,
    )
    return jitted.lower(state, *arguments).compile()


def _train(
    experiment: Experiment,
    folder: RunFolder,
    checkpoints: Checkpoints,
    signals: StopSignals,
    state: steps.TrainState,
    journal: Journal,
) -> steps.TrainState:
    """The loop: from `state` to the last step, with evaluations and checkpoints."""
    config, plan, train = experiment.config, experiment.plan, experiment.splits["train"]
    whole = meshes.replicated(experiment.mesh)
    parts = meshes.split_batch(experiment.mesh)
    step = int(state.step)
    if _is_finished(experiment, journal, step):
        return state
    on_device = meshes.fits(train.images.nbytes, experiment.mesh)

    def batch_at(step: int) -> dict[str, Array]:
        indices = batches.train_indices(
            len(train), config.batch_size, config.seed, step
        )
        epochs = batches.train_epochs(len(train), config.batch_size, step)
        batch = {"indices": indices, "epochs": epochs}
        if not on_device:
            batch |= {"images": train.images[indices], "labels": train.labels[indices]}
        return meshes.put(batch, parts)

    def put_scale() -> Array:
        return meshes.put(np.float32(journal.lr_scale(config.schedule)), whole)

    write_scalars = None
    if config.tensorboard:
        write_scalars = tensorboard_writer(str(folder.path / "tensorboard"))
    split = meshes.put((train.images, train.labels), whole) if on_device else None
    root_key = jax.jit(lambda key: key, out_shardings=whole)(experiment.root_key)
    lr_scale = put_scale()
    train_step = _compile_step(
        experiment, state, split, batch_at(step), root_key, lr_scale
    )
    progress = Progress(plan.total_steps, step)
    log = TrainLog(
        folder,
        progress,
        batch_size=config.batch_size,
        steps_per_epoch=plan.steps_per_epoch,
        seconds=journal.train_seconds,
        write_scalars=write_scalars,
    )

    def save(accuracy: float | None = None, loss: float | None = None) -> None:
        journal.train_seconds = log.seconds
        metadata = dataclasses.asdict(journal)
        checkpoints.save(step, state, metadata=metadata, accuracy=accuracy, loss=loss)

    def validate() -> dict[str, float]:
        logits = experiment.score(state.variables, "val")
        labels = experiment.splits["val"].labels
        # Other hosts' CPUs may round otherwise, and too much depends on these.
        return agreement.first_decides(
            lambda: {
                "accuracy": classification.accuracy(logits, labels),
                "loss": classification.cross_entropy(logits, labels),
            }
        )

    # Inside, every copy between host and device has to be asked for.
    with jax.transfer_guard("disallow"):
        while not _is_finished(experiment, journal, step):
            signal_number = signals.agreed(ask=step % plan.log_every == 0)
            if signal_number is not None:
                log.drain()
                save()
                checkpoints.wait()
                progress.close()
                raise Interrupted(step, signal_number)
            state, metrics = train_step(
                state, split, batch_at(step), root_key, lr_scale
            )
            step += 1
            log.add(step, metrics)
            if step % plan.log_every == 0:
                log.end_interval()
            evaluates = step % plan.eval_every == 0 or step == plan.total_steps
            saves = step % plan.checkpoint_every == 0
            if not evaluates and not saves:
                continue
            # A loss that is not finite stops here, before it is saved.
            log.drain()
            scores = {}
            if evaluates:
                scores = validate()
                is_best = journal.add_evaluation(step, scores)
                lr_scale = put_scale()
                log.record(
                    {"step": step, "split": "val", **scores, "seconds": log.seconds}
                )
                progress.line(
                    f"epoch {step / plan.steps_per_epoch:.4g}: val accuracy "
                    f"{scores['accuracy']:.2%}, val loss {scores['loss']:.4f}"
                )
                saves |= is_best or _is_finished(experiment, journal, step)
            if saves:
                save(**scores)
            log.resume_clock()
    progress.close()
    checkpoints.wait()
    return state


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
            results[name] = evaluate.describe_scores(logits, split)
    return results | {
        "num_steps": int(state.step),
        "num_epochs": round(int(state.step) / experiment.plan.steps_per_epoch, 4),
        "seed": config.seed,
        "train_seconds": journal.train_seconds,
        "images_per_second": num_images / journal.train_seconds,
        "device": device.device_kind,
        "num_devices": experiment.mesh.size,
    }
