"""Descriptions of networks, for the tests of several modules."""

from vit_jax import models
from vit_jax.figures.architecture import Branch
from vit_jax.interpret.architecture import describe_architecture


def flat(block):
    """All parts of a block, those on shortcuts included."""
    for item in block:
        if isinstance(item, Branch):
            yield from item.parts
            yield from filter(None, [item.shortcut])
        else:
            yield item


def describe(name, **settings):
    """(description, model) for CIFAR-10's images."""
    model = models.make_model(
        {"name": name, **settings},
        num_classes=10,
        image_shape=(32, 32, 3),
        dtype="float32",
    )
    return describe_architecture(model, (32, 32, 3)), model
