"""Several steps in one dispatch, their batches, and whether they fit."""

import dataclasses
import pathlib

import jax
import numpy as np
import pytest

from tests.training.made import batch_of
from vit_jax.config import load_config_file
from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.parallel import mesh as meshes
from vit_jax.training import dispatch
from vit_jax.training.experiment import make_experiment
from vit_jax.training.input_pipeline import InputPipeline
from vit_jax.training.plan import make_plan


@pytest.mark.parametrize("first, size", [(0, 1), (0, 10), (0, 1000), (47, 10)])
def test_dispatches_cover_every_step_and_stop_where_something_happens(
    experiment, first, size
):
    plan = experiment.plan
    found = list(dispatch.plan_dispatches(plan, first, size))
    steps = [step for start, num in found for step in range(start, start + num)]
    assert steps == list(range(first, plan.total_steps))
    ends = {start + num for start, num in found}
    for every in (plan.eval_every, plan.checkpoint_every):
        assert {s for s in range(first + 1, 101) if s % every == 0} <= ends
    assert max(num for _, num in found) <= size


CONFIGS = sorted((pathlib.Path(__file__).parents[2] / "configs").glob("*.py"))
CONFIGS = [path for path in CONFIGS if path.stem != "own_weights"]  # trains one step


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_one_program_computes_little_in_vain(path):
    plan = make_plan(load_config_file(str(path)), 45_000)
    size = dispatch.program_size(plan, 50)
    calls = list(dispatch.plan_dispatches(plan, 0, size))
    assert 25 < size <= 50
    assert size * len(calls) <= 1.02 * plan.total_steps


def test_stops_that_never_meet_take_a_smaller_program(experiment):
    plan = dataclasses.replace(
        experiment.plan, total_steps=5000, eval_every=100, checkpoint_every=77
    )
    size = dispatch.program_size(plan, 50)
    calls = list(dispatch.plan_dispatches(plan, 0, size))
    assert size < 25 and size * len(calls) <= 1.3 * plan.total_steps


def test_a_training_without_end_is_planned_at_once(experiment):
    plan = dataclasses.replace(
        experiment.plan, total_steps=10**12, eval_every=100, checkpoint_every=50
    )
    assert dispatch.program_size(plan, 50) == 50
    assert dispatch.program_size(plan, 1) == 1


def test_steps_in_a_dispatch_are_chosen_for_the_device(tiny_config, experiment):
    plan = experiment.plan
    train = experiment.splits["train"]
    pipeline = InputPipeline(train, experiment.config, experiment.mesh)
    assert dispatch.most_steps(experiment.config, plan, pipeline) == 1
    asked = tiny_config(steps_per_dispatch=7)
    assert dispatch.most_steps(asked, plan, pipeline) == 7


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
        found = dispatch.most_steps(config, plan, pipeline)
        assert found == expected, pipeline.num_bytes(1)


@pytest.mark.slow
def test_a_compiled_step_that_does_not_fit_is_refused_with_a_way_out(
    tiny_config, splits, monkeypatch
):
    experiment = make_experiment(tiny_config(batch_size=512), splits)
    monkeypatch.setattr(meshes, "free_bytes", lambda devices: 500_000)
    with pytest.raises(UserError) as refusal:
        dispatch.compile_training(experiment)
    for words in ("512 images needs about", "GB are free", "config.batch_size="):
        assert words in str(refusal.value)
    smaller = int(str(refusal.value).split("config.batch_size=")[1].split()[0])
    assert 0 < smaller < 512
    # The training images are fewer bytes than are missing.
    assert "placement" not in str(refusal.value)


@pytest.mark.slow
def test_images_that_take_the_memory_of_a_step_may_stay_on_the_host(
    tiny_config, splits, monkeypatch
):
    train = splits["train"].select(np.arange(1288).repeat(500))  # 41 MB
    config = tiny_config(data__placement="device", data__mean=(0.5,), data__std=(1.0,))
    experiment = make_experiment(config, {**splits, "train": train})
    monkeypatch.setattr(meshes, "free_bytes", lambda devices: 100_000)
    with pytest.raises(UserError, match=r" or config\.data\.placement=host\."):
        dispatch.compile_training(experiment)


@pytest.mark.slow
def test_seeds_share_a_program(tiny_config, splits):
    """The seed is an argument, also of the flips' first views."""
    config = tiny_config(augment__flip="alternating", model__dropout=0.1)
    texts = set()
    for seed in (0, 1):
        config.seed = seed
        built = make_experiment(config, splits)
        inputs = built.state_shapes, batch_of(built), built.root_key, np.float32(1)
        texts.add(jax.jit(built.train_step).lower(*inputs).as_text())
    assert len(texts) == 1
