"""A finished run is loaded from its folder and predicts as it did in training."""

import time

import jax
import numpy as np
import pytest

import vit_jax
from vit_jax import data
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run


@pytest.mark.parametrize("which", ["best", "latest", 6, "6"])
def test_load_run_predicts_what_training_scored(tiny_run, which):
    workdir, results = tiny_run
    run = vit_jax.load_run(str(workdir), checkpoint=which)
    assert run.step == (results["best_step"] if which == "best" else 6)
    assert run.class_names == tuple("0123456789")
    test = data.load(run.config.data)["test"]
    probabilities = run.predict(test.images)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    if run.step == results["best_step"]:
        accuracy = np.mean(probabilities.argmax(1) == test.labels)
        assert accuracy == pytest.approx(results["test"]["accuracy"])
        loss = -np.log(probabilities[np.arange(len(test)), test.labels]).mean()
        assert loss == pytest.approx(results["test"]["loss"], rel=1e-4)
    logits = run.model.apply(run.variables, run.normalize(test.images[:3]), train=False)
    np.testing.assert_allclose(
        jax.nn.softmax(logits), probabilities[:3], rtol=1e-4, atol=1e-6
    )


def test_what_is_no_run_is_said_so(tmp_path, tiny_run):
    with pytest.raises(UserError, match="no run folder"):
        load_run(tmp_path / "nothing")
    with pytest.raises(UserError, match="no checkpoint 5"):
        load_run(tiny_run[0], checkpoint=5)


@pytest.mark.slow
@pytest.mark.parametrize("key, name", [("model", "depth"), ("mae", "decoder_depth")])
def test_a_depth_that_takes_minutes_to_trace_is_refused_at_once(key, name, copied_run):
    saved = RunFolder(copied_run).read("config")
    saved[key][name] = 1000
    RunFolder(copied_run).write("config", saved)
    start = time.monotonic()
    with pytest.raises(UserError, match=rf"config\.{key}\.{name} is 1000"):
        load_run(copied_run)
    assert time.monotonic() - start < 30


def test_relative_folders_work(tiny_run, monkeypatch):
    monkeypatch.chdir(tiny_run[0].parent)
    assert load_run("tiny").workdir == tiny_run[0]


def test_a_temperature_of_any_report_is_used(copied_run):
    results = RunFolder(copied_run).read("results")
    fitted = {"calibration": {"after": {"temperature": 1.7}}}
    RunFolder(copied_run).write("results", results | {"subset_test": fitted})
    assert load_run(copied_run).temperature == 1.7
