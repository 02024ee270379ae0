"""What cannot fit is refused before anything is allocated."""

import dataclasses
import functools
import resource

import jax
import pytest

from vit_jax import models
from vit_jax.errors import UserError
from vit_jax.runs.load import load_run
from vit_jax.training.experiment import make_experiment, next_stage


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"batch_size": 2**30}, "batch_size"),
        ({"model__width": 2**16}, "config.model"),
        ({"model__num_registers": 2**16, "batch_size": 2**12}, "batch_size"),
        ({"model__num_registers": 2**12, "batch_size": 8, "num_devices": 1,
          "eval_batch_size": 2000},
         "the largest output for images to score .config.eval_batch_size"),
        ({"data__resize": 4096, "model__patch_size": 1}, "the layers' outputs"),
    ],
)  # fmt: skip
def test_absurd_sizes_are_refused_at_once(tiny_config, splits, changes, words):
    config = tiny_config(**changes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=rf"at least .* GB .* for .*{words}.* are free"):
        make_experiment(config, splits)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert used < 500_000  # kB, of which most is for tracing


def test_a_later_stage_does_not_ask_for_what_is_there_already(
    tiny_config, splits, monkeypatch
):
    config = tiny_config(stages=[{"num_steps": 2}, {"num_steps": 3}])
    experiment = make_experiment(config, splits)
    # As if the state and the images had taken all of it.
    monkeypatch.setattr("vit_jax.parallel.mesh.free_bytes", lambda devices: 0)
    with pytest.raises(UserError, match=r"at least .* GB"):
        make_experiment(config, experiment.splits, 1, 2)
    assert next_stage(experiment, 2).stage == 1


@pytest.mark.parametrize(
    "changes", [{"linear_probe": True}, {"optim__trainable": "head"}]
)
def test_layers_that_are_not_trained_keep_no_outputs(
    tiny_config, splits, monkeypatch, changes
):
    config = tiny_config(model__depth=32, batch_size=1024, eval_batch_size=8)
    monkeypatch.setattr("vit_jax.parallel.mesh.free_bytes", lambda devices: 12_000_000)
    with pytest.raises(UserError, match=r"at least .* for the layers' outputs"):
        make_experiment(config, splits)
    for key, value in changes.items():
        config[key.replace("__", ".")] = value
    make_experiment(config, splits)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes, words",
    [
        ({"width": 2**16}, "the teacher .config.distill.teacher"),
        ({"num_registers": 2**20}, "the teacher's largest output for a batch"),
    ],
)
def test_a_teacher_counts(tiny_config, tiny_run, splits, changes, words):
    """Its model has grown after it was loaded: only shapes are there of its values."""
    config = tiny_config(distill__teacher=str(tiny_run[0]), batch_size=1024)
    run = load_run(tiny_run[0])
    make_experiment(config, splits, teacher=run)
    model = run.model.clone(**changes)
    init = functools.partial(models.init_variables, model, image_shape=(8, 8, 1))
    variables = jax.eval_shape(init, jax.random.key(0))
    huge = dataclasses.replace(run, model=model, variables=variables)
    with pytest.raises(UserError, match=rf"at least .* GB .* for {words}.* are free"):
        make_experiment(config, splits, teacher=huge)


@pytest.mark.slow
def test_a_huge_evaluation_batch_is_the_whole_split(tiny_config, splits):
    experiment = make_experiment(tiny_config(eval_batch_size=2**31 - 1), splits)
    scores = experiment.evaluate(experiment.init_state().variables)
    assert 0 <= scores["accuracy"] <= 1
