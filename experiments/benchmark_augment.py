"""What augmentation costs, as a share of the train step, on the device it runs on.

    python experiments/benchmark_augment.py
    python experiments/benchmark_augment.py --batch_size=1024 --model=resnet18

Prints a line for each policy, and for each part of a batch's way through augmentation:
milliseconds per batch, and their share of a train step with that augmentation. Images
are random, since neither depends on what is in them.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.augment import make_augment
from vit_jax.config import make_config
from vit_jax.data import Dataset
from vit_jax.experiment import make_experiment

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
    "erasing, noise": NOTHING | {"erase_prob": 0.25, "erase_fill": "noise"},
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
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


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
                images,
                labels,
                step=jnp.int32(0),
                epochs=epochs,
                indices=indices,
            )
            # Sums, so that nothing is left out as unused.
            return total + images_out.sum() + targets.sum()

        return jax.lax.fori_loop(0, 10, body, jnp.float32(0))

    key = jax.random.key(0)
    return median_seconds(lambda: augment_many(key, **batch), repeats) / 10


def step_seconds(model: str, batch: Mapping[str, jax.Array], repeats: int) -> float:
    """Seconds of one train step without augmentation."""
    images, labels = np.asarray(batch["images"]), np.asarray(batch["labels"])
    dataset = Dataset(images, labels, tuple("abcdefghij"))
    experiment = make_experiment(
        make_config(
            {
                "batch_size": len(images),
                "eval_batch_size": len(images),
                "num_devices": 1,
                "model": {"name": model},
                "augment": NOTHING,
            }
        ),
        dict.fromkeys(("train", "val", "test"), dataset),
    )
    train_step = jax.jit(experiment.train_step)
    state, root_key = experiment.init_state(), experiment.root_key
    scale = jnp.float32(1)
    return median_seconds(lambda: train_step(state, batch, root_key, scale), repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="vit_ti")
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()

    batch = make_batch(arguments.batch_size)
    step = step_seconds(arguments.model, batch, arguments.repeats)
    device = jax.devices()[0]
    print(f"{device.platform} ({device.device_kind}), JAX {jax.__version__}")
    print(
        f"{arguments.model}, batch {arguments.batch_size}: "
        f"{step * 1e3:.2f} ms a step without augmentation"
    )
    for name, settings in AUGMENTATIONS.items():
        seconds = augment_seconds(settings, batch, arguments.repeats)
        share = seconds / (seconds + step)
        print(f"{name:50s} {seconds * 1e3:9.3f} ms {share:8.2%}", flush=True)


if __name__ == "__main__":
    main()
