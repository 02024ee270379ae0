"""Summaries of a run for the terminal: before it, before a stage, and at the end."""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from vit_jax import augment, models
from vit_jax.config.settings import SELECTED
from vit_jax.data import Dataset, named_splits
from vit_jax.errors import shorten
from vit_jax.metrics import classification
from vit_jax.training import trainable
from vit_jax.training.experiment import Experiment

# For each value of data.select_on, what a run does.
_SELECTS = {
    "val": "selects on the hold-out",
    "test": "selects on the test split",
    "nothing": "selects nothing: the last step is scored",
}


def summarize(experiment: Experiment, num_params: int) -> str:
    """What the run will do, for a person: device, data, model and schedule."""
    config, mesh, splits = experiment.config, experiment.mesh, experiment.splits
    selects = _SELECTS[config.data.select_on]
    image_shape = splits["train"].images.shape[1:]
    seen = augment.input_shape(image_shape, config.data.resize)
    device = mesh.devices.flat[0]
    macs = models.count_macs(experiment.model, seen)
    cost = f", {2e-9 * macs:.3g} GFLOPs forward per image"
    read = named_splits(splits)
    sizes = ", ".join(f"{name} {len(split):,}" for name, split in read.items())
    shape = "x".join(map(str, image_shape))
    if config.data.resize:
        shape += f" (resized to {config.data.resize})"
    source = config.data.name
    if source != config.data.source:
        source += f" ({config.data.source})"
    is_masked = config.objective == "masked_autoencoding"
    how = " as a masked autoencoder" if is_masked else ""
    rows = {
        "device": f"{mesh.size} x {device.device_kind} ({device.platform}), "
        f"{config.model.dtype} computation",
        "data": f"{source}, {shape} images: {sizes}; {selects}{_missing_classes(read)}",
        "model": f"{config.model.name}{how}, {num_params:,} parameters{cost}",
        "schedule": describe_stage(experiment),
    }
    if config.linear_probe:
        rows["schedule"] = "linear probe: only the head is fitted, and no step trained"
        if not config.pretrained.path:
            rows["schedule"] += (
                "; note: the features are those of random weights, since "
                "config.pretrained.path is empty"
            )
    if config.distill.teacher:
        rows["teacher"] = (
            f"{config.distill.teacher}, step {config.distill.step:,}: its "
            f"{config.distill.kind} predictions weigh {config.distill.alpha:g}"
        )
    return "\n".join(f"{name:>9}  {text}" for name, text in rows.items())


def _missing_classes(splits: Mapping[str, Dataset]) -> str:
    """A note for each split that has no image of some classes; "" if there is none."""
    notes = []
    for name, split in splits.items():
        counts = zip(split.class_names, split.count_classes(), strict=True)
        if absent := [class_name for class_name, count in counts if not count]:
            notes.append(f"; note: {name} has no image of {shorten(absent, 4)}")
    return "".join(notes)


def describe_stage(experiment: Experiment) -> str:
    """Length, optimizer, rate and trained part of a stage; its number if it has one."""
    config, plan = experiment.stage_config, experiment.plan
    epochs = plan.total_steps / plan.steps_per_epoch
    text = (
        f"{plan.total_steps:,} steps of {config.batch_size} images "
        f"({epochs:.4g} epochs), {_describe_rates(config.optim)}, "
        f"{config.schedule.name}"
    )
    if plan.steps_per_epoch < 1:
        text += (
            f"; note: a batch is more than the {len(experiment.splits['train']):,} "
            "training images, so that each is seen more than once in a step"
        )
    if experiment.trained is not None or experiment.config.stages:
        params = experiment.state_shapes.params
        part, frozen = trainable.split(params, experiment.trained)
        text += (
            f"; {config.optim.trainable} trained "
            f"({models.count_params(part):,} parameters)"
        )
        if frozen and experiment.stage == 0 and not config.pretrained.path:
            text += (
                "; note: the others keep their random values meanwhile, since "
                "config.pretrained.path is empty"
            )
    if count := len(experiment.config.stages):
        text = f"stage {experiment.stage + 1} of {count}: {text}"
    return text


def _describe_rates(config_optim: ConfigDict) -> str:
    """The optimizer with the peak of each of its learning rates."""
    rate = f"{config_optim.learning_rate:g}"
    if config_optim.name == "muon":
        matrices = "the blocks' matrices"
        if config_optim.muon_convolutions:
            matrices = "matrices and convolutions"
        rate = (
            f"{config_optim.muon_learning_rate:g} for {matrices} and {rate} for the "
            "rest"
        )
    text = f"{config_optim.name}, peak rate {rate}"
    if config_optim.layer_decay != 1:
        text += f", times {config_optim.layer_decay:g} for each layer below the head"
    return text


def describe_results(results: Mapping[str, Any], workdir: str) -> str:
    """The result of a run with its interval, and what to type next."""
    selected = SELECTED[results["selected_on"]]
    test, command = results["test"], f"  python -m vit_jax.{{}} --workdir={workdir}"
    commands = [
        f"{command.format('evaluate')} --report",
        f"{command.format('predict')} photo.jpg",
    ]
    row = models.MODELS[results["model"]]
    # There are heat maps of these only.
    if getattr(row, "func", row) in (models.ViT, models.ResNet):
        commands.insert(1, command.format("explain"))
    score = "accuracy not known"
    if test["accuracy"] is not None:
        low, high = classification.accuracy_interval(
            test["accuracy"], test["num_examples"]
        )
        score = (
            f"accuracy {test['accuracy']:.2%} (95% interval {low:.2%} to {high:.2%})"
        )
    elif "per_class" not in test:
        loss = "not known" if test["loss"] is None else f"{test['loss']:.4f}"
        score = f"reconstruction loss {loss}"
        commands = [
            "  python -m vit_jax.main --config=CONFIG --workdir=DIR "
            "--config.objective=classification "
            f"--config.pretrained.path={workdir}"
        ]
    return "\n".join(
        (
            f"test {score} on {test['num_examples']:,} images; checkpoint "
            f"of step {results['best_step']:,}, {selected}; "
            f"{results['train_seconds']:.1f} s of training",
            f"results are in {workdir}; what to type next:",
            *commands,
        )
    )
