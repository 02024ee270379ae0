"""Batches on their way to the devices."""

import itertools

import jax
import numpy as np
import pytest

from vit_jax.data import Dataset, batches
from vit_jax.parallel import mesh as meshes
from vit_jax.training.input_pipeline import InputPipeline, prefetch


def test_prefetch_keeps_the_order_and_stays_a_little_ahead():
    called = []
    stream = prefetch(lambda x: called.append(x) or 10 * x, itertools.count(), depth=2)
    assert [next(stream) for _ in range(5)] == [0, 10, 20, 30, 40]
    stream.close()
    assert called == sorted(called) and len(called) <= 7


def test_prefetch_raises_where_the_result_would_have_been():
    stream = prefetch(lambda x: 1 / x, [2, 1, 0, 1], depth=2)
    assert [next(stream), next(stream)] == [0.5, 1.0]
    with pytest.raises(ZeroDivisionError):
        next(stream)


@pytest.fixture
def mapped(experiment, tmp_path):
    """The train split, with its images in a memory-mapped file."""
    train = experiment.splits["train"]
    np.save(tmp_path / "images.npy", train.images)
    images = np.load(tmp_path / "images.npy", mmap_mode="r")
    return Dataset(images, train.labels, train.class_names)


def test_a_pipeline_gives_the_same_images_from_the_device_and_from_a_file(
    experiment, mapped, tiny_config
):
    config = experiment.config
    mesh, on_host = experiment.mesh, tiny_config(data__placement="host")
    on_device = InputPipeline(experiment.splits["train"], config, mesh)
    streamed = InputPipeline(mapped, on_host, mesh)
    assert on_device.split is not None and streamed.split is None
    dispatches = [(0, 2), (2, 2), (4, 1)]
    pairs = zip(
        on_device.stream(dispatches, 2), streamed.stream(dispatches, 2), strict=True
    )
    for (num_steps, ours), (same_number, theirs) in pairs:
        assert num_steps == same_number
        for given in (ours, theirs):
            assert given["is_step"].tolist() == [True, num_steps == 2]
        np.testing.assert_array_equal(ours["indices"], theirs["indices"])
        np.testing.assert_array_equal(
            on_device.split[0][ours["indices"]], theirs["images"]
        )
        np.testing.assert_array_equal(
            on_device.split[1][ours["indices"]], theirs["labels"]
        )
    expected = batches.train_indices(1338, config.batch_size, config.seed, 4)
    np.testing.assert_array_equal(ours["indices"][0], expected)
    for pipeline in (on_device, streamed):
        given = jax.eval_shape(lambda x: x, next(pipeline.stream([(0, 2)], 3))[1])
        assert {k: (v.shape, v.dtype) for k, v in given.items()} == {
            k: (v.shape, v.dtype) for k, v in pipeline.shapes(3).items()
        }


def test_shapes_of_batches_are_known_without_reading_any(mapped, tiny_config):
    config = tiny_config(data__placement="host")
    pipeline = InputPipeline(mapped, config, meshes.make_mesh(1))
    pipeline.batches_at = None
    # Two int32 for each of 16 images, an int32 as its label and its 64 pixels; and a
    # byte for each batch.
    assert pipeline.num_bytes(2) == 2 * (16 * (4 + 4 + 4 + 64) + 1)
