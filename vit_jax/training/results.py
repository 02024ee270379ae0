"""The results of a finished run."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from vit_jax import models
from vit_jax.config.stages import stage_configs
from vit_jax.data import named_splits
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.load import selected_checkpoint, stored_scores
from vit_jax.training import resolve, trainable
from vit_jax.training.experiment import Experiment
from vit_jax.training.history import History
from vit_jax.training.train_state import TrainState


def score_best(
    experiment: Experiment,
    checkpoints: Checkpoints,
    state: TrainState,
    history: History,
) -> dict[str, Any]:
    """The content of results.json: restores the selected checkpoint and scores it.

    With `config.data.select_on` other than "test", this is the only use of the test
    split.
    """
    config, splits = experiment.config, experiment.splits
    num_images = int(state.step) * config.batch_size or len(splits["train"])
    # Without the optimizer's state, which differs from stage to stage.
    target = dataclasses.replace(state, opt_state=None)
    best, _ = checkpoints.restore(selected_checkpoint(config), target, partial=True)
    device = experiment.mesh.devices.flat[0]
    stages = describe_stages(experiment, state, history)
    results = {
        "model": config.model.name,
        "num_params": models.count_params(state.params),
        "num_trainable_params": stages[-1]["num_trainable_params"],
        "selected_on": config.data.select_on,
        "num_train_examples": len(splits["train"]),
        "best_step": int(best.step),
        "best_epoch": round(int(best.step) / experiment.plan.steps_per_epoch, 4),
        "val": None,  # Replaced below where images are held out.
    }
    for name, split in named_splits(splits).items():
        if name != "train":
            outputs = experiment.score(best.variables, name)
            results[name] = experiment.scoring.describe_scores(outputs, split)
    if config.stages:
        results["stages"] = stages
    if history.linear_probe is not None:
        results["linear_probe"] = history.linear_probe
    return results | {
        "num_steps": int(state.step),
        "num_epochs": round(int(state.step) / experiment.plan.steps_per_epoch, 4),
        "seed": config.seed,
        "compile_seconds": history.compile_seconds,
        "train_seconds": history.train_seconds,
        "cpu_seconds": history.cpu_seconds,
        "images_per_second": num_images / history.train_seconds,
        "device": device.device_kind,
        "num_devices": experiment.mesh.size,
    }


def keep_scores(
    old: Mapping[str, Any], new: Mapping[str, Any], steps: Collection[int]
) -> dict[str, Any]:
    """The results `new` with what `evaluate` had added to `old` before.

    Args:
      old: results.json as it is, or {}.
      new: what `score_best` returns.
      steps: of the checkpoints that are kept; scores of others are left out.
    """
    results, stored = dict(new), dict(old.get("other_checkpoints", {}))
    if "best_step" in old:
        stored[str(old["best_step"])] = {
            name: scores
            for name, scores in old.items()
            if isinstance(scores, dict) and "num_examples" in scores
        }
    for step, splits in stored.items():
        if splits and int(step) in steps:
            place = stored_scores(results, int(step))
            for split, scores in splits.items():
                # The log was shorter then.
                lasting = {k: v for k, v in scores.items() if not k.endswith("_logged")}
                place[split] = lasting | (place.get(split) or {})
    return results


def describe_stages(
    experiment: Experiment, state: TrainState, history: History
) -> list[dict[str, Any]]:
    """For each stage its first and last step and number of trained parameters.

    `experiment` is of the last stage, and `state` after it.
    """
    config, starts = experiment.config, history.stage_starts
    ends = [*starts[1:], int(state.step)]
    described = []
    for own, first, last in zip(stage_configs(config), starts, ends, strict=True):
        trained = resolve.trained_names(own, state.params)
        if config.linear_probe:
            trained = trainable.trainable_names(state.params, "head")
        part, _ = trainable.split(state.params, trained)
        described.append(
            {
                "first_step": first,
                "last_step": last,
                "num_trainable_params": models.count_params(part),
            }
        )
    return described
