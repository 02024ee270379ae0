"""A summary of a run that is printed before it starts."""

from vit_jax import models
from vit_jax.training.experiment import Experiment


def summarize(experiment: Experiment, num_params: int) -> str:
    """What the run will do, for a person: device, data, model and schedule."""
    config, plan, mesh = experiment.config, experiment.plan, experiment.mesh
    splits = experiment.splits
    image_shape = splits["train"].images.shape[1:]
    device = mesh.devices.flat[0]
    gflops = 2e-9 * models.count_macs(experiment.model, image_shape)
    sizes = ", ".join(
        f"{name} {len(split.images):,}"
        for name, split in splits.items()
        if not (name == "val" and split is splits["test"])
    )
    selected = {
        "val": "selects on the hold-out",
        "test": "selects on the test split",
        "nothing": "selects nothing: the last step is scored",
    }[config.data.select_on]
    shape = "x".join(map(str, image_shape))
    epochs = plan.total_steps / plan.steps_per_epoch
    rows = {
        "device": f"{mesh.size} x {device.device_kind} ({device.platform}), "
        f"{config.model.dtype} computation",
        "data": f"{config.data.source} {config.data.name}, {shape} images: {sizes}; "
        f"{selected}",
        "model": f"{config.model.name}, {num_params:,} parameters, "
        f"{gflops:.3g} GFLOPs forward per image",
        "schedule": f"{plan.total_steps:,} steps of {config.batch_size} images "
        f"({epochs:.4g} epochs), {config.optim.name}, peak rate "
        f"{config.optim.learning_rate:g}, {config.schedule.name}",
    }
    return "\n".join(f"{name:>9}  {text}" for name, text in rows.items())
