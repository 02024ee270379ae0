import jax
import numpy as np

from vit_jax.training.rng import key_for


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
