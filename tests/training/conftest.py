"""An experiment that is planned and not trained, for the tests of several modules."""

import pytest


@pytest.fixture(scope="session")
def experiment(tiny_config):
    """100 steps with the digits; not to be changed."""
    from vit_jax import data
    from vit_jax.training.experiment import make_experiment

    config = tiny_config(num_steps=100, eval_every="33 steps", checkpoint_every=1)
    return make_experiment(config, data.load(config.data))
