"""Every config at full size on real CIFAR-10: what its first two steps must be."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax import data, models
from vit_jax import mesh as meshes
from vit_jax.config import apply_overrides, load_config_file
from vit_jax.experiment import make_experiment

TRAIN = 45_000
BATCH = 8
EPOCH = TRAIN / BATCH

# config: parameters, peak rate, and steps of warm-up at a batch size of 8.
RECIPES = {
    "vit_cifar.py": (3_907_786, 1e-3, round(0.05 * 200 * EPOCH)),
    "resnet_cifar.py": (11_173_962, 0.1, 5 * EPOCH),
    "vit_192x9.py": (4_028_170, 1e-3, 5 * EPOCH),
    "vit_192x9.py:resnet18": (11_173_962, 0.1, 0),
    "vit_128x6.py": (1_205_642, 3e-4, 0),
    "vit_128x6.py:sinusoidal": (1_197_322, 3e-4, 0),
    "vit_192x12.py": (5_356_234, 1e-3, 10 * EPOCH),
    "vit_192x12.py:plain": (5_356_234, 1e-3, 10 * EPOCH),
    "vit_192x12.py:resnet18": (11_173_962, 1e-3, 10 * EPOCH),
    "vit_256x6.py": (4_771_082, 3e-4, 0),
    "vit_256x6.py:baseline": (4_771_082, 3e-4, 0),
}


@pytest.fixture(scope="module")
def splits(cifar10_dir):
    config = apply_overrides(
        load_config_file("configs/vit_cifar.py"),
        ["--config.data.source=cifar_files", f"--config.data.dir={cifar10_dir}"],
    )
    return data.load(config.data)


@pytest.mark.parametrize("name", RECIPES)
def test_first_two_steps(name, splits):
    num_params, peak, warmup = RECIPES[name]
    config = load_config_file(f"configs/{name}")
    config.batch_size, config.num_devices = BATCH, 1
    experiment = make_experiment(config, splits)
    train = splits["train"]
    assert len(train) == TRAIN
    state = experiment.init_state()
    assert models.count_params(state.params) == num_params

    step = jax.jit(experiment.train_step, donate_argnums=0)
    before = jax.device_get(state.params)
    for number in range(2):
        indices = data.batches.train_indices(TRAIN, BATCH, config.seed, number)
        batch = {
            "images": train.images[indices],
            "labels": train.labels[indices],
            "indices": indices,
            "epochs": np.zeros_like(indices),
        }
        batch = meshes.put(batch, meshes.split_batch(experiment.mesh))
        state, metrics = step(state, batch, experiment.root_key, jnp.float32(1))
        rate = peak * number / warmup if warmup else peak
        assert float(metrics["learning_rate"]) == pytest.approx(rate, rel=1e-5)
        # An untrained network gives every class about the same chance.
        assert abs(float(metrics["loss"]) - math.log(10)) < (1.5 if number else 0.9)
        assert 0.05 < float(metrics["grad_norm"]) < 100
        moved = max(
            float(np.abs(a - b).max())
            for a, b in zip(
                jax.tree.leaves(before), jax.tree.leaves(state.params), strict=True
            )
        )
        # A warm-up begins at a rate of zero: its first step moves nothing.
        assert (moved > 0) == (rate > 0)
    assert int(state.step) == 2


@pytest.mark.parametrize("change", ["augment", "center", "decay", "cosine", "longer"])
def test_each_single_change_is_one_change(change):
    """The variants between baseline and stronger differ from the baseline in one way."""
    from vit_jax.config import flatten

    def settings(variant):
        return dict(flatten(load_config_file(f"configs/vit_256x6.py:{variant}")))

    baseline, single, stronger = map(settings, ("baseline", change, "stronger"))
    changed = {key for key in baseline if baseline[key] != single[key]}
    assert (
        changed
        == {
            "augment": {"augment.crop", "augment.flip"},
            "center": {"data.mean", "data.std"},
            "decay": {"optim.weight_decay"},
            "cosine": {"schedule.name"},
            "longer": {"num_epochs"},
        }[change]
    )
    assert all(single[key] == stronger[key] for key in changed)
