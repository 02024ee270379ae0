"""Untrained models as runs, for the tests of several modules."""

import functools
import pathlib

import jax
import numpy as np

from vit_jax import models
from vit_jax.config import default_config
from vit_jax.runs.run import Run

CLASSES = np.array([1, 0, 3])
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(256, size=(3, 8, 8, 3), dtype=np.uint8)


@functools.cache
def make_run(model=None, **settings):
    """A run of an untrained small model on 8x8 images of four classes."""
    config = default_config()
    config["data.mean"] = (0.4, 0.5, 0.6)
    config["data.std"] = (0.2, 0.3, 0.2)
    if model is None:
        small = {"patch_size": 4, "width": 16, "depth": 2, "num_heads": 2}
        model = models.ViT(num_classes=4, **(small | settings))
    init = functools.partial(models.init_variables, model, image_shape=(8, 8, 3))
    rng = np.random.default_rng(1)

    def draw(path, leaf):
        # Far from the initial values, where attention is nearly even.
        start = 1 if path[-1].key in ("scale", "var") else 0
        noise = 0.3 * np.abs(rng.normal(size=leaf.shape))
        return (start + noise).astype(np.float32)

    shapes = jax.eval_shape(init, jax.random.key(0))
    return Run(
        workdir=pathlib.Path("untrained"),
        config=config,
        model=model,
        variables=jax.tree_util.tree_map_with_path(draw, shapes),
        step=0,
        class_names=("a", "b", "c", "d"),
        image_shape=(8, 8, 3),
    )


def make_resnet_run():
    return make_run(models.ResNet(num_classes=4, stage_sizes=(1, 1), width=4))
