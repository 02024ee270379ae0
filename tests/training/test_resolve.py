"""What the machine and the data decide where a config leaves it open."""

import numpy as np
import pytest
from flax import linen as nn

from tests.training.made import RESNET
from vit_jax import models
from vit_jax.data import Dataset
from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.training import resolve
from vit_jax.training.experiment import make_experiment


@pytest.mark.parametrize(
    "batch_size, devices, parts, words",
    [(16, 3, 8, "16.* of 24 .*use 24"), (100, 8, 1, "100.* of 8 .*use 96 or 104")],
)
def test_batches_are_checked_against_devices_and_microbatches(
    tiny_config, splits, batch_size, devices, parts, words
):
    config = tiny_config(batch_size=batch_size, num_devices=devices)
    config.optim.num_microbatches = parts
    with pytest.raises(UserError, match=f"config.batch_size is {words}"):
        make_experiment(config, splits)


def test_a_vits_batch_has_the_microbatches_that_suit_the_machine(
    tiny_config, splits, monkeypatch
):
    def microbatches(**settings):
        built = make_experiment(tiny_config(**settings), splits)
        assert built.config.optim.num_microbatches in (1, 8)  # The setting decides.
        return built.num_microbatches

    monkeypatch.setattr(backend, "num_microbatches", lambda size, macs: size // 16)
    assert microbatches(batch_size=32) == 2
    assert microbatches(batch_size=64) == 4
    assert microbatches(batch_size=32, optim__num_microbatches=8) == 8
    assert microbatches(batch_size=32, **RESNET) == 1


def test_what_is_filled_in_is_explicit_and_stays(tiny_config, splits):
    config = tiny_config(data__mean=None, data__std=None, model__dtype="auto")
    resolved = resolve.resolve_config(config, splits["train"])
    assert resolved.model.dtype == "float32" and config.model.dtype == "auto"
    assert resolved.data.name == "digits" and len(resolved.data.mean) == 1
    again = resolve.resolve_config(resolved, splits["train"])
    assert again.to_json() == resolved.to_json()


def test_balanced_classes_count_as_if_they_had_equally_many_images(tiny_config):
    labels = np.array([0, 0, 0, 1], np.int32)
    images = np.arange(256, dtype=np.uint8).reshape(4, 8, 8, 1)
    train = Dataset(images, labels, ("many", "few"))
    config = tiny_config(
        data__validation=0, data__select_on="nothing", optim__class_weights="balanced"
    )
    built = make_experiment(config, {"train": train, "test": train})
    objective = built.train_step.keywords["objective"]
    assert objective.keywords["class_weights"] == pytest.approx((2 / 3, 2))


class Plain(nn.Module):
    """A model of a user's own that sows no features and has no layer called head."""

    @nn.compact
    def __call__(self, images, *, train=False):
        return nn.Dense(10)(images.reshape(len(images), -1))


class WithoutBias(nn.Module):
    """One whose head has a kernel only."""

    @nn.compact
    def __call__(self, images, *, train=False):
        features = images.reshape(len(images), -1)
        self.sow("intermediates", "features", features)
        return nn.Dense(10, use_bias=False, name="head")(features)


class BareHead(nn.Module):
    """One whose head is a parameter, and no layer."""

    @nn.compact
    def __call__(self, images, *, train=False):
        features = images.reshape(len(images), -1)
        self.sow("intermediates", "features", features)
        shape = features.shape[1], 10
        return features @ self.param("head", nn.initializers.zeros, shape)


class Unpooled(nn.Module):
    """One that sows an image of features, which it pools before the head."""

    @nn.compact
    def __call__(self, images, *, train=False):
        self.sow("intermediates", "features", images)
        return nn.Dense(10, name="head")(images.mean((1, 2)))


def test_a_classifier_needs_two_classes(tiny_config):
    """As where a folder of photos is given that is one of the classes."""
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(40, 8, 8, 1), dtype=np.uint8)
    one = Dataset(images, np.zeros(40, np.int32), ("cat",))
    with pytest.raises(UserError, match="only the class 'cat', but a classifier needs"):
        make_experiment(tiny_config(), {"train": one, "test": one})


def test_a_linear_probe_needs_features_and_a_head(tiny_config):
    model, shape = Plain(), (8, 8, 1)
    with pytest.raises(UserError, match="Plain stores no features or has no layer"):
        resolve.check_probe(model, models.variable_shapes(model, shape), shape)
    vit = models.make_model(
        tiny_config().model, num_classes=10, image_shape=shape, dtype="float32"
    )
    resolve.check_probe(vit, models.variable_shapes(vit, shape), shape)
    for model in (WithoutBias(), BareHead(), Unpooled()):
        with pytest.raises(UserError, match="with a kernel and a bias"):
            resolve.check_probe(model, models.variable_shapes(model, shape), shape)
    config_model = tiny_config(model__distillation_token=True).model
    deit = models.make_model(
        config_model, num_classes=10, image_shape=shape, dtype="float32"
    )
    with pytest.raises(UserError, match="that alone computes the logits"):
        resolve.check_probe(deit, models.variable_shapes(deit, shape), shape)
