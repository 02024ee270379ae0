"""An experiment that is planned and not trained, and what makes trainings quick."""

import pytest


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
def settings_of_small_resnets(resnet10):
    """All tests here may name the model "resnet10", as `made.RESNET` does."""


@pytest.fixture
def no_curves(monkeypatch):
    """Trainings end without the figure of their curves, which takes them a second."""
    from vit_jax.training import curves

    monkeypatch.setattr(curves, "draw_history", lambda folder: {})
