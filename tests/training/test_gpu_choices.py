"""What a GPU computes otherwise than a CPU trains alike; it is tested on a CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.training.made import batch_of
from vit_jax import data
from vit_jax.config import apply_overrides, load_config_file
from vit_jax.models import backend
from vit_jax.training.experiment import make_experiment

# NVIDIA's fused attention, which a CPU does not have, needs a newer GPU than this.
OLD_GPU = ("gpu", "7.5")


def losses_of_6_steps(dtype, attention, folder):
    config = apply_overrides(
        load_config_file("configs/vit_cifar_fast.py"),
        ["--config.data.source=cifar_files", f"--config.data.dir={folder}"],
    )
    config.num_steps, config.batch_size, config.num_devices = 6, 16, 1
    config.schedule.warmup, config.eval_every = "2 steps", "6 steps"
    config.model.depth, config.model.dtype = 1, dtype
    config.model.attention_implementation = attention
    config.augment.policy = "none"  # It computes alike, and takes long to compile.
    splits = data.load(config.data)
    experiment = make_experiment(config, splits)
    state, step = experiment.init_state(), jax.jit(experiment.train_step)
    losses = []
    for number in range(config.num_steps):
        indices = data.batches.train_indices(
            len(splits["train"]), config.batch_size, config.seed, number
        )
        state, scores = step(
            state, batch_of(experiment, indices), experiment.root_key, jnp.float32(1)
        )
        losses.append(float(scores["loss"]))
    return np.array(losses)


@pytest.mark.slow
def test_losses_in_16_bits_are_near_those_of_a_cpu(cifar10_dir):
    """Norms folded into products, projections apart, updates of groups of leaves."""
    expected = losses_of_6_steps("float32", "plain", cifar10_dir)
    with backend.computing_for(*OLD_GPU):
        found = losses_of_6_steps("bfloat16", "xla", cifar10_dir)
    assert expected.std() > 0.03  # it learns
    np.testing.assert_allclose(found, expected, rtol=0.004)
