"""Several steps in one dispatch, their batches, and whether they fit."""

import dataclasses
import itertools
import pathlib
import signal

import jax
import numpy as np
import pytest

from vit_jax import data
from vit_jax.config import load_config_file
from vit_jax.data import Dataset, batches
from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.parallel.signals import Interrupted
from vit_jax.runs.folder import RunFolder
from vit_jax.training import dispatch
from vit_jax.training.experiment import make_experiment, make_plan
from vit_jax.training.input_pipeline import InputPipeline, prefetch
from vit_jax.training.logs import TrainLog
from vit_jax.training.profile import busy_seconds
from vit_jax.training.train import train_and_evaluate


@pytest.fixture(scope="module")
def experiment(tiny_config):
    config = tiny_config(num_steps=100, eval_every="33 steps", checkpoint_every=1)
    return make_experiment(config, data.load(config.data))


@pytest.mark.parametrize("first, most", [(0, 1), (0, 10), (0, 1000), (47, 10)])
def test_dispatches_cover_every_step_and_stop_where_something_happens(
    experiment, first, most
):
    plan = experiment.plan
    found = list(dispatch.plan_dispatches(plan, first, most))
    steps = [step for start, size in found for step in range(start, start + size)]
    assert steps == list(range(first, plan.total_steps))
    ends = {start + size for start, size in found}
    for every in (plan.eval_every, plan.checkpoint_every):
        assert {s for s in range(first + 1, 101) if s % every == 0} <= ends
    assert max(size for _, size in found) <= most


CONFIGS = sorted((pathlib.Path(__file__).parents[2] / "configs").glob("*.py"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_few_programs_are_compiled(path):
    """Each size is one, and takes up to a minute on a GPU."""
    config = load_config_file(str(path))
    plan = make_plan(config, 45_000)
    sizes = {size for _, size in dispatch.plan_dispatches(plan, 0, 50)}
    assert len(sizes) <= 6
    # From any step on, a resumed run adds no more than the powers of two.
    resumed = {size for _, size in dispatch.plan_dispatches(plan, 77, 50)}
    assert resumed - sizes <= {1, 2, 4, 8, 16, 32}


def test_steps_in_a_dispatch_are_chosen_for_the_device(tiny_config, experiment):
    plan = experiment.plan
    train = experiment.splits["train"]
    pipeline = InputPipeline(train, experiment.config, experiment.mesh)
    assert dispatch.steps_per_dispatch(experiment.config, plan, pipeline) == 1
    asked = tiny_config(steps_per_dispatch=7)
    assert dispatch.steps_per_dispatch(asked, plan, pipeline) == 7


def test_images_from_the_host_limit_a_dispatch_on_an_accelerator(
    experiment, tiny_config, monkeypatch
):
    monkeypatch.setattr(backend, "platform", lambda: "gpu")
    plan = dataclasses.replace(experiment.plan, log_every=50)
    train, mesh = experiment.splits["train"], experiment.mesh
    for changes, expected in (
        ({}, 50),
        ({"data__placement": "host"}, 50),
        ({"data__placement": "host", "batch_size": 2**18}, 13),
    ):
        config = tiny_config(**changes)
        pipeline = InputPipeline(train, config, mesh)
        found = dispatch.steps_per_dispatch(config, plan, pipeline)
        assert found == expected, pipeline.num_bytes(1)


@pytest.mark.slow
def test_a_step_that_does_not_fit_into_memory_is_refused_with_a_way_out(
    tiny_config, tmp_path
):
    with pytest.raises(UserError) as refusal:
        train_and_evaluate(tiny_config(batch_size=2**25, num_steps=2), tmp_path)
    for words in ("33554432 images needs about", "GB are free", "config.batch_size="):
        assert words in str(refusal.value)
    smaller = int(str(refusal.value).split("config.batch_size=")[1].split()[0])
    assert 0 < smaller < 2**25
    assert not RunFolder(tmp_path).read_metrics()


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
    pairs = zip(on_device.stream(dispatches), streamed.stream(dispatches), strict=True)
    for (size, ours), (same_size, theirs) in pairs:
        assert size == same_size == len(ours["indices"])
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
        given = jax.eval_shape(lambda x: x, next(pipeline.stream([(0, 3)]))[1])
        assert {k: (v.shape, v.dtype) for k, v in given.items()} == {
            k: (v.shape, v.dtype) for k, v in pipeline.shapes(3).items()
        }


@pytest.mark.slow
def test_a_profile_of_steady_training_is_written_into_the_run(
    tiny_config, tmp_path, capsys
):
    train_and_evaluate(
        tiny_config(eval_every="6 steps", checkpoint_every="6 steps"),
        tmp_path,
        profile=True,
    )
    (trace,) = (tmp_path / "profile").rglob("*.xplane.pb")
    busy, span = busy_seconds(trace)
    assert 0 < busy <= span
    assert "the device worked in" in capsys.readouterr().err


@pytest.mark.slow
def test_a_profile_ends_with_whatever_ends_the_run(tiny_config, tmp_path, monkeypatch):
    """Also where an evaluation follows every dispatch, and after an interruption."""
    original = TrainLog.add

    def add(self, step, metrics):
        if step == 4:
            signal.raise_signal(signal.SIGTERM)
        original(self, step, metrics)

    monkeypatch.setattr(TrainLog, "add", add)
    config = tiny_config(eval_every="6 steps", checkpoint_every="6 steps")
    with pytest.raises(Interrupted):
        train_and_evaluate(config, tmp_path / "cut", profile=True)
    monkeypatch.undo()
    train_and_evaluate(
        tiny_config(eval_every="1 steps"), tmp_path / "whole", profile=True
    )
    assert list((tmp_path / "whole" / "profile").rglob("*.xplane.pb"))
