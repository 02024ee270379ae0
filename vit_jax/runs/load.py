"""A trained model, loaded from the folder of a finished or unfinished run."""

import os
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from vit_jax import augment, models
from vit_jax.config import make_config
from vit_jax.errors import UserError
from vit_jax.models import memory
from vit_jax.parallel import mesh as meshes
from vit_jax.runs import manifest
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.records import evaluations
from vit_jax.runs.run import Run, build_model
from vit_jax.runs.user_code import add_code_of_run


def selected_checkpoint(config: ConfigDict) -> str:
    """The checkpoint whose scores are the run's: "latest" if nothing was selected."""
    return "latest" if config.data.select_on == "nothing" else "best"


def stored_scores(results: dict[str, Any], step: int) -> dict[str, Any]:
    """The part of results.json that holds one checkpoint's scores, by split.

    The selected checkpoint's scores are at the top level. The returned part is not a
    copy: what is put into it is put into `results`.
    """
    if step == results.get("best_step"):
        return results
    return results.setdefault("other_checkpoints", {}).setdefault(str(step), {})


def _stored_temperature(results: dict[str, Any], step: int) -> float:
    scores = stored_scores(results, step)
    # A report on any split fits the temperature to the same images.
    for split in ("test", "val", "subset_test", "train"):
        calibration = (scores.get(split) or {}).get("calibration")
        if calibration and calibration["after"]["temperature"]:
            return float(calibration["after"]["temperature"])
    return 1.0


def _require_complete(
    config: ConfigDict, num_channels: int, file: pathlib.Path
) -> None:
    """Refuses settings that training has not filled in."""
    channels = (config.data.mean, config.data.std)
    if config.model.dtype == "auto" or not all(
        numbers and len(numbers) == num_channels for numbers in channels
    ):
        raise UserError(
            f"{file} is incomplete: it must have config.model.dtype, and "
            "config.data.mean and std for each channel; restore it from a copy."
        )


def load_run(workdir: str | os.PathLike, checkpoint: str | int = "best") -> Run:
    """Loads the weights and settings of a finished or unfinished run.

    Args:
      workdir: the run's folder.
      checkpoint: "best" (by validation accuracy; the latest if the config selects on
        nothing), "latest", or a step that was kept, as a number or as text.

    Raises:
      UserError: there is no run, or no such checkpoint, or it is damaged; or the
        file of code that it was trained with is missing, has changed, or was never
        named here.
    """
    folder = RunFolder(workdir)
    config = make_config(folder.read("config"))
    add_code_of_run(config.code, config.code_sha256)
    if isinstance(checkpoint, str) and checkpoint[:99].isdecimal():
        checkpoint = int(checkpoint[:99])  # any step has fewer digits
    dataset = folder.read_dataset()
    image_shape = tuple(dataset["image_shape"])
    _require_complete(config, image_shape[2], folder.path / "config.json")
    input_shape = augment.input_shape(image_shape, config.data.resize)
    model = build_model(config, input_shape, len(dataset["class_names"]))
    variables = {"batch_stats": {}, **models.variable_shapes(model, input_shape)}
    # A model that cannot score a single image is not loaded.
    memory.require_memory_to_score(
        model,
        image_shape,
        input_shape,
        batch_size=1,
        free=meshes.free_bytes(jax.local_devices()[:1]),
        kept={"parameters": memory.num_bytes(variables)},
    )
    # The part of a `TrainState` that evaluation needs, without the optimizer's state.
    averaged = config.optim.ema_decay > 0
    target = {
        "step": jax.ShapeDtypeStruct((), jnp.int32),
        **({"ema": variables} if averaged else variables),
    }
    if checkpoint == "best":
        checkpoint = selected_checkpoint(config)
    state, digest = _restore(folder.checkpoints, checkpoint, target)
    step = int(state.pop("step"))
    try:
        temperature = _stored_temperature(folder.read_results(), step)
    except (AttributeError, LookupError, TypeError, ValueError):
        raise UserError(
            f"{folder.path / 'results.json'} is damaged: its scores are no objects "
            "with numbers; restore it from a copy, or remove it."
        ) from None
    return Run(
        workdir=folder.path,
        config=config,
        model=model,
        variables=state["ema"] if averaged else state,
        step=step,
        class_names=tuple(dataset["class_names"]),
        image_shape=image_shape,
        sha256=digest,
        temperature=temperature,
    )


def _restore(
    directory: pathlib.Path, which: str | int, target: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """(state, SHA-256) of a checkpoint, beside a training that may remove it.

    Several processes, which have to read alike, do not try again.
    """
    while True:
        with Checkpoints(directory, read_only=True) as checkpoints:
            known = checkpoints.steps()
            try:
                state, _ = checkpoints.restore(which, target, partial=True)
                step = int(state["step"])
                return state, manifest.digest(directory / str(step) / "state")
            except Exception:
                kept = all((directory / str(step)).exists() for step in known)
                if kept or jax.process_count() > 1:
                    raise


def load_selected(workdir: str | os.PathLike) -> tuple[Run, str]:
    """The run with its best checkpoint, and what selected that: config.data.select_on.

    A run that was not evaluated yet comes with its latest one, which "nothing"
    selected.

    Raises:
      UserError: as `load_run` does.
    """
    folder = RunFolder(workdir)
    try:
        run = load_run(workdir)
    except UserError:
        if "num_steps" in folder.read_results() or evaluations(folder.read_metrics()):
            raise
        return load_run(workdir, "latest"), "nothing"
    return run, run.config.data.select_on


def load_classifier(workdir: str | os.PathLike, checkpoint: str | int = "best") -> Run:
    """`load_run`, which also raises what `Run.check_classifier` does."""
    run = load_run(workdir, checkpoint)
    run.check_classifier()
    return run
