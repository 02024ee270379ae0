"""An experiment that is planned and not trained, and a ResNet that compiles soon."""

import functools

import pytest

from vit_jax import models


@pytest.fixture(scope="session")
def splits(tiny_config):
    """The digits as `tiny_config` divides them."""
    from vit_jax import data

    return data.load(tiny_config().data)


@pytest.fixture(scope="session")
def experiment(tiny_config, splits):
    """100 steps with the digits; not to be changed."""
    from vit_jax.training.experiment import make_experiment

    config = tiny_config(num_steps=100, eval_every="33 steps", checkpoint_every=1)
    return make_experiment(config, splits)


@pytest.fixture(autouse=True)
def resnet10():
    """The model "resnet10" with a block in each stage: half the time to compile."""
    with pytest.MonkeyPatch.context() as patch:
        network = functools.partial(models.ResNet, stage_sizes=(1, 1, 1, 1))
        patch.setitem(models.MODELS, "resnet10", network)
        yield
