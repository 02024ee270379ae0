"""Eight devices train as one does, up to rounding."""

import jax
import numpy as np
import pytest

from tests.parallel.running import train_losses
from tests.training.made import RESNET
from vit_jax import data
from vit_jax.errors import UserError
from vit_jax.parallel import mesh as meshes
from vit_jax.runs.load import load_run
from vit_jax.training.experiment import make_experiment
from vit_jax.training.train import train_and_evaluate


def test_a_mesh_has_the_devices_asked_for():
    assert meshes.make_mesh(0).size == jax.device_count() == 8
    assert meshes.make_mesh(3).size == 3
    with pytest.raises(UserError, match=r"9.*8"):
        meshes.make_mesh(9)


def test_put_copies_or_divides():
    mesh = meshes.make_mesh(4)
    array = np.arange(8.0)
    whole = meshes.put(array, meshes.replicated(mesh))
    parts = meshes.put(array, meshes.split_batch(mesh))
    assert [s.data.shape for s in whole.addressable_shards] == [(8,)] * 4
    assert [s.data.tolist() for s in parts.addressable_shards] == [
        [0, 1], [2, 3], [4, 5], [6, 7]
    ]  # fmt: skip


def test_what_fits_is_half_of_what_is_free():
    mesh = meshes.make_mesh(2)
    free = meshes.free_bytes(mesh.local_devices)
    assert 2**20 < free < 2**50
    assert meshes.fits(free // 4, mesh) and not meshes.fits(free, mesh)


def test_a_split_state_is_cut_at_the_largest_axis_that_divides():
    mesh = meshes.make_mesh(4)
    shapes = {"wide": (64, 128), "odd": (63, 40), "prime": (1009, 3), "small": (512,)}
    tree = {k: jax.ShapeDtypeStruct(v, np.float32) for k, v in shapes.items()}
    split = meshes.state_shapes(mesh, tree, split=True)
    specs = {k: tuple(v.sharding.spec) for k, v in split.items()}
    assert specs == {
        "wide": (None, "data"), "odd": (None, "data"), "prime": (), "small": ()
    }  # fmt: skip


@pytest.mark.slow
def test_split_parameters_train_as_whole_ones_do(tiny_config, tmp_path):
    """With Muon, which leaves all that are no matrices of a block to AdamW."""
    changes = {
        "num_devices": 8, "model__width": 32, "optim__name": "muon",
        "optim__ema_decay": 0.9, "optim__clip_norm": 1.0, "num_steps": 3,
        "log_every": "1 steps",
    }  # fmt: skip
    whole = train_and_evaluate(tiny_config(**changes), tmp_path / "whole")
    config = tiny_config(**changes, shard_params=True)
    split = train_and_evaluate(config, tmp_path / "split")
    losses = [train_losses(tmp_path / name) for name in ("whole", "split")]
    assert len(losses[0]) == 3 and losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert split["test"]["loss"] == pytest.approx(whole["test"]["loss"], rel=1e-3)
    # A checkpoint of a split state is read as a whole one.
    assert load_run(tmp_path / "split").step == split["best_step"]

    experiment = make_experiment(config, data.load(config.data))
    state = experiment.init_state()
    stated = jax.tree.map(lambda x: (x.shape, x.dtype, x.sharding), state)
    assert stated == jax.tree.map(
        lambda x: (x.shape, x.dtype, x.sharding), experiment.state_shapes
    )
    kernel = state.params["block0"]["mlp"]["hidden"]["kernel"]
    assert kernel.addressable_shards[0].data.size == kernel.size // 8


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        # BatchNorm could see only its own device's part of the batch.
        {"data__train_per_class": 20, "optim__name": "sgd", **RESNET},
        {"model__dropout": 0.2, "model__drop_path": 0.2, "augment__mixup_alpha": 1.0,
         "augment__cutmix_alpha": 1.0, "augment__mix_per": "image",
         "augment__flip": "random", "optim__num_microbatches": 2},
    ],
    ids=["ResNet", "ViT, dropout and mixing"],
)  # fmt: skip
def test_eight_devices_train_as_one_does(tiny_config, resnet10, tmp_path, settings):
    settings = {"num_steps": 3, "log_every": "1 steps", **settings}
    results = [
        train_and_evaluate(tiny_config(num_devices=n, **settings), tmp_path / f"on{n}")
        for n in (1, 8)
    ]
    losses = [train_losses(tmp_path / f"on{n}") for n in (1, 8)]
    # Sums over the batch have another order, which changes the rounding of float32.
    assert len(losses[0]) == 3 and losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert results[0]["test"]["num_examples"] == results[1]["test"]["num_examples"]
    assert results[0]["test"]["loss"] == pytest.approx(
        results[1]["test"]["loss"], rel=1e-3
    )
    assert results[1]["num_devices"] == 8
