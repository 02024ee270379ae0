"""The cost of each augmentation.

`python -m experiments.benchmark --augmentations` prints a line for each policy and for
each other augmentation: milliseconds per batch, and their fraction of a train step with
that augmentation. The images are random, since the cost does not depend on them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarking import timing
from experiments.benchmarking.jax_step import (
    JaxStep,
    load_config,
    make_dataset,
    without_augmentation,
)
from vit_jax.augment import make_augment
from vit_jax.config import make_config
from vit_jax.models import backend

NOTHING = {"crop": "none", "flip": "none"}
REGULARIZED = {
    "policy": "trivialaugment",
    "erase_prob": 0.25,
    "mixup_alpha": 0.2,
    "cutmix_alpha": 1.0,
    "label_smoothing": 0.1,
}
AUGMENTATIONS = {
    "normalization only": NOTHING,
    "padded crop and flip": {},
    "resized crop and flip": {"crop": "resized"},
    "erasing, zero": NOTHING | {"erase_prob": 0.25},
    "erasing, noise": NOTHING | {"erase_prob": 0.25, "erase_noise": True},
    "MixUp or CutMix": NOTHING | {"mixup_alpha": 0.2, "cutmix_alpha": 1.0},
    "RandAugment(2, 9)": NOTHING | {"policy": "randaugment"},
    "TrivialAugmentWide": NOTHING | {"policy": "trivialaugment"},
    "AutoAugment": NOTHING | {"policy": "autoaugment"},
    "crop, flip, RandAugment(2, 9)": {"policy": "randaugment"},
    "crop, flip, TrivialAugmentWide, erasing, mixing": REGULARIZED,
}


def median_seconds(run: Callable[[], Any], repeats: int) -> float:
    """Median duration of `run`, after one call that compiles."""
    jax.block_until_ready(run())
    wall, _ = timing.alternate({"run": lambda: jax.block_until_ready(run())}, repeats)
    return timing.describe(wall["run"])["median"]


def make_batch(batch_size: int) -> dict[str, jax.Array]:
    """A batch as `steps.train_step` takes it, of the size of CIFAR-10's images."""
    rng = np.random.default_rng(0)
    return {
        "images": jnp.asarray(rng.integers(256, size=(batch_size, 32, 32, 3)), "uint8"),
        "labels": jnp.arange(batch_size, dtype="int32") % 10,
        "indices": jnp.arange(batch_size, dtype="int32"),
        "epochs": jnp.zeros(batch_size, "int32"),
    }


def augment_seconds(
    settings: Mapping[str, Any], batch: Mapping[str, jax.Array], repeats: int
) -> float:
    """Seconds to augment one batch, from 10 in one dispatch."""
    augment = make_augment(
        make_config({"augment": settings}).augment,
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
        num_classes=10,
        mix_until_step=1,
    )

    @jax.jit
    def augment_many(key, images, labels, indices, epochs):
        def body(i, total):
            images_out, targets = augment(
                jax.random.fold_in(key, i),
                # Other pixels each time, or XLA would normalise them once for all.
                images ^ i.astype(jnp.uint8),
                labels,
                step=jnp.int32(0),
                epochs=epochs,
                indices=indices,
                run_key=key,
            )
            # Sums, so that nothing is left out as unused.
            return total + images_out.sum() + targets.sum()

        return jax.lax.fori_loop(0, 10, body, jnp.float32(0))

    key = jax.random.key(0)
    return median_seconds(lambda: augment_many(key, **batch), repeats) / 10


def measure(
    names: Sequence[str], batch_size: int, repeats: int, overrides: Sequence[str]
) -> dict[str, Any]:
    """Prints milliseconds a batch of each augmentation, and its fraction of each step.

    Returns:
      The machine, the seconds of each model's step without augmentation, and those of
      each augmentation for one batch; `overrides` decide the models, and the
      augmentations called after them.
    """
    configs = {name: load_config(name, batch_size, overrides) for name in names}
    # Settings on the command line go before the flags, and are of all models.
    batch_size = next(iter(configs.values())).batch_size
    batch, dataset = make_batch(batch_size), make_dataset()
    steps, augmentations = {}, dict(AUGMENTATIONS)
    for name, config in configs.items():
        augmentations[f"as {name} is trained"] = config.augment.to_dict()
        num_steps = min(50, backend.max_steps_per_dispatch())
        run = JaxStep(without_augmentation(config), dataset, num_steps)
        steps[name] = median_seconds(run, repeats) / num_steps
    machine = timing.describe_machine()
    print(f"{machine['device']}, JAX {machine['versions']['jax']}, batch {batch_size}")
    for name, seconds in steps.items():
        print(f"{name}: {seconds * 1e3:.2f} ms a step without augmentation")
    costs = {}
    for name, settings in augmentations.items():
        costs[name] = seconds = augment_seconds(settings, batch, repeats)
        fractions = [f"{seconds / (seconds + step):8.2%}" for step in steps.values()]
        print(f"{name:50s} {seconds * 1e3:9.3f} ms", *fractions, flush=True)
    return machine | {
        "batch_size": batch_size,
        "step_seconds": steps,
        "augment_seconds": costs,
    }
