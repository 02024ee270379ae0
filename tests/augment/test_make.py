"""The whole augmentation of a batch, by `make_augment`."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from vit_jax.augment import make_augment, normalize
from vit_jax.config import make_config

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
EVERYTHING = {
    "policy": "randaugment",
    "erase_prob": 0.5,
    "erase_noise": True,
    "mixup_alpha": 0.8,
    "cutmix_alpha": 1.0,
    "label_smoothing": 0.1,
}
UNMIXED = {"policy": "trivialaugment", "crop": "resized", "erase_prob": 0.5}
NOTHING = {"crop": "none", "flip": "none"}


@functools.cache
def make(mix_until_step=100, mean=MEAN, std=STD, **settings):
    """A compiled augment function."""
    augment = make_augment(
        make_config({"augment": settings}).augment,
        mean=mean,
        std=std,
        num_classes=10,
        mix_until_step=mix_until_step,
    )
    # Nearly all the time that these tests take is compilation.
    return jax.jit(augment, compiler_options={"xla_backend_optimization_level": 0})


def make_batch(count=16, channels=3, step=0, epoch=0):
    """Keyword arguments of an augment function, without the key."""
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(count, 32, 32, channels)).astype(np.uint8)
    return {
        "images": jnp.asarray(images),
        "labels": jnp.arange(count) % 10,
        "step": jnp.int32(step),
        "epochs": jnp.full(count, epoch),
        "indices": jnp.arange(count),
        "run_key": jax.random.key(0),
    }


def test_without_any_augmentation_only_normalizes():
    batch = make_batch()
    images, targets = make(**NOTHING)(jax.random.key(0), **batch)
    np.testing.assert_allclose(images, normalize(batch["images"], MEAN, STD), atol=1e-6)
    np.testing.assert_array_equal(targets, np.eye(10)[batch["labels"]])


def test_label_smoothing_is_spread_evenly():
    _, targets = make(label_smoothing=0.1, **NOTHING)(jax.random.key(0), **make_batch())
    expected = np.full((16, 10), 0.01) + 0.9 * np.eye(10)[np.arange(16) % 10]
    np.testing.assert_allclose(targets, expected, atol=1e-7)


@pytest.mark.slow
def test_label_smoothing_of_mixed_targets_is_that_of_their_mixture():
    settings = NOTHING | {"mixup_alpha": 0.8, "cutmix_alpha": 1.0}
    key, batch = jax.random.key(3), make_batch()
    images, hard = make(**settings)(key, **batch)
    smoothed_images, smooth = make(label_smoothing=0.1, **settings)(key, **batch)
    assert (hard.max(1) < 1).all()
    np.testing.assert_allclose(smooth, 0.9 * hard + 0.01, atol=1e-6)
    np.testing.assert_array_equal(images, smoothed_images)


@pytest.mark.slow
def test_every_setting_changes_the_program():
    """Programs are compared, constants included; they are not compiled."""
    mixing = {"mixup_alpha": 1.0, "cutmix_alpha": 1.0}
    variants = [
        {},
        {"crop": "pad"},
        {"crop": "pad", "crop_padding_pixels": 2},
        {"crop": "pad", "crop_padding_mode": "reflect"},
        {"crop": "pad", "crop_padding_mode": "edge"},
        {"crop": "resized"},
        {"crop": "resized", "crop_min_area": 0.3},
        {"flip": "random"},
        {"flip": "alternating"},
        {"policy": "randaugment"},
        {"policy": "randaugment", "randaugment_magnitude": 30},
        {"policy": "randaugment", "randaugment_num_ops": 3},
        {"policy": "trivialaugment"},
        {"policy": "autoaugment"},
        {"erase_prob": 0.5},
        {"erase_prob": 1.0},
        {"erase_prob": 1.0, "erase_noise": True},
        {"mixup_alpha": 1.0},
        {"mixup_alpha": 0.5},
        {"cutmix_alpha": 1.0},
        {"cutmix_alpha": 0.5},
        mixing,
        mixing | {"mix_switch_prob": 0.1},
        mixing | {"mix_prob": 0.5},
        mixing | {"mix_per": "image"},
        mixing | {"mix_until_step": 7},
        {"label_smoothing": 0.1},
    ]
    key, batch = jax.random.key(1), make_batch(count=2)
    programs = {
        make(**NOTHING | settings).lower(key, **batch).as_text()
        for settings in variants
    }
    assert len(programs) == len(variants)


def test_mixing_stops_at_its_step():
    augment = make(mix_until_step=50, mixup_alpha=1.0, **NOTHING)
    mixed = [
        float(augment(jax.random.key(0), **make_batch(step=step))[1].max(1).min())
        for step in (0, 49, 50, 1000)
    ]
    assert mixed[0] < 1
    assert mixed[1] < 1
    assert mixed[2:] == [1, 1]


@pytest.mark.slow
def test_same_key_same_batch_other_key_another():
    augment, batch = make(**EVERYTHING), make_batch()
    first = augment(jax.random.key(0), **batch)
    again = augment(jax.random.key(0), **batch)
    other = augment(jax.random.key(1), **batch)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, first, again))
    assert not jnp.array_equal(first[0], other[0])
    assert not jnp.array_equal(first[1], other[1])


@pytest.mark.slow
def test_an_image_does_not_depend_on_the_others():
    augment = make(**UNMIXED)
    batch = make_batch()
    images, _ = augment(jax.random.key(0), **batch)
    batch["images"] = batch["images"].at[1:].set(0)
    alone, _ = augment(jax.random.key(0), **batch)
    np.testing.assert_array_equal(images[0], alone[0])
    assert not jnp.array_equal(images[1:], alone[1:])


def test_images_of_a_batch_are_augmented_differently():
    augment, batch = make(), make_batch()
    batch["images"] = jnp.broadcast_to(batch["images"][:1], batch["images"].shape)
    images, _ = augment(jax.random.key(0), **batch)
    assert len({np.asarray(image).tobytes() for image in images}) > 12


def test_alternating_flip_knows_examples_by_index_not_by_place():
    augment = make(crop="none", flip="alternating")
    batch = make_batch()
    images, _ = augment(jax.random.key(0), **batch)
    reverse = {name: value[::-1] for name, value in batch.items() if value.ndim}
    reversed_images, _ = augment(jax.random.key(1), **batch | reverse)
    np.testing.assert_array_equal(images, reversed_images[::-1])
    next_epoch, _ = augment(jax.random.key(2), **make_batch(epoch=1))
    np.testing.assert_array_equal(images, next_epoch[:, :, ::-1])
    # Another seed is another argument of the same program.
    batch["run_key"] = jax.random.key(1)
    assert not jnp.array_equal(images, augment(jax.random.key(0), **batch)[0])


@pytest.mark.slow
def test_gray_images():
    augment = make(mean=(0.5,), std=(0.2,), **UNMIXED)
    images, _ = augment(jax.random.key(0), **make_batch(channels=1))
    assert images.shape == (16, 32, 32, 1)
    assert jnp.isfinite(images).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [EVERYTHING, UNMIXED, NOTHING | {"policy": "autoaugment"}]
)
def test_stays_on_the_device_and_in_32_bits(settings):
    augment, key, batch = make(**settings), jax.random.key(0), make_batch()
    program = str(augment.trace(key, **batch).jaxpr)
    assert not re.search("callback|f64|i64", program)
    augment(key, **batch)  # compiles, which moves constants
    with jax.transfer_guard("disallow"):
        augment(key, **batch)


@pytest.mark.slow
@pytest.mark.parametrize("mixing", [True, False])
def test_on_8_devices_only_mixing_moves_data_and_the_result_is_the_same(mixing):
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    batch, key = make_batch(), jax.random.key(0)
    sharded = {
        name: jax.device_put(value, sharding) if value.ndim else value
        for name, value in batch.items()
    }
    augment = make(**EVERYTHING if mixing else UNMIXED)
    compiled = augment.lower(key, **sharded).compile()
    pattern = r"(all-\w+|reduce-scatter|collective-\w+)(?:-start)?\("
    moving = set(re.findall(pattern, compiled.as_text()))
    assert moving == ({"collective-permute"} if mixing else set())
    for found, expected in zip(
        compiled(key, **sharded), augment(key, **batch), strict=True
    ):
        assert found.sharding.is_equivalent_to(sharding, found.ndim)
        np.testing.assert_allclose(found, expected, atol=1e-5)
