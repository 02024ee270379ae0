"""The training state before the first step, and random keys."""

import jax
import numpy as np
import optax
import pytest

from vit_jax import models
from vit_jax.training import train_state
from vit_jax.training.train_state import key_for


@pytest.mark.parametrize("use_ema", [False, True])
def test_the_initial_state(use_ema):
    model = models.ResNet(num_classes=3, stage_sizes=(), width=4)
    root, shape = jax.random.key(5), (8, 8, 1)
    state = train_state.init_state(
        root,
        model=model,
        optimizer=optax.sgd(0.1, momentum=0.9),
        image_shape=shape,
        use_ema=use_ema,
    )
    assert state.step.dtype == np.int32 and int(state.step) == 0
    key = key_for(root, "init", 0)
    expected = models.init_variables(model, key, shape)
    jax.tree.map(np.testing.assert_array_equal, state.variables, dict(expected))
    assert state.batch_stats and (state.ema is not None) == use_ema
    if use_ema:
        assert state.variables is state.ema
        # A step may donate both: they must not share memory.
        for tree in ("params", "batch_stats"):
            averages, current = (
                {leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(part[tree])}
                for part in (state.ema, vars(state))
            )
            assert averages.isdisjoint(current)


def test_keys_differ_by_name_and_step_and_root():
    keys = [
        key_for(jax.random.key(seed), name, step)
        for seed in (0, 1)
        for name in ("augment", "dropout")
        for step in (0, 1, 2)
    ]
    data = {tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in keys}
    assert len(data) == len(keys)


def test_a_traced_step_gives_the_same_key():
    root = jax.random.key(3)
    inside = jax.jit(lambda step: key_for(root, "augment", step))(7)
    assert (
        jax.random.key_data(inside) == jax.random.key_data(key_for(root, "augment", 7))
    ).all()
