"""A sweep's members are the runs that would have been trained one by one."""

import functools
import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from experiments.members import Member, Sweep, check_sweep
from experiments.sweep import run_sweep
from vit_jax import data
from vit_jax.checkpoint import Checkpoints
from vit_jax.errors import UserError
from vit_jax.train import train_and_evaluate

RATE = 1e-3
MEMBERS = [Member(RATE, 0), Member(3 * RATE, 0), Member(RATE, 5)]
# Same operations in another order of additions; Adam divides by small numbers.
CLOSE = {"rtol": 1e-3, "atol": 2e-5}


@pytest.fixture(scope="module")
def config(tiny_config):
    # Alternating flips and dropout: all that a seed decides.
    return tiny_config(augment__flip="alternating", model__dropout=0.1)


@pytest.fixture(scope="module")
def splits(config):
    return data.load(config.data)


def train_alone(config, member, workdir):
    """(last state's parameters, evaluations) of `vit_jax.main`'s own run."""
    config = config.copy_and_resolve_references()
    config.seed, config.optim.learning_rate = member.seed, member.learning_rate
    train_and_evaluate(config, workdir)
    lines = (workdir / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return [record for record in records if record["split"] == "val"]


@pytest.mark.parametrize("steps_per_dispatch", [1, 2])
def test_members_equal_single_runs(config, splits, tmp_path, steps_per_dispatch):
    sweep = Sweep(config, splits, MEMBERS)
    history, _ = run_sweep(sweep, steps_per_dispatch=steps_per_dispatch)
    for i, member in enumerate(MEMBERS):
        workdir = tmp_path / str(i)
        alone = train_alone(config, member, workdir)
        assert [r["step"] for r in history[i]] == [r["step"] for r in alone] == [3, 6]
        for ours, theirs in zip(history[i], alone, strict=True):
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
        ours = jax.tree.map(lambda x, i=i: x[i], sweep.states)
        with Checkpoints(workdir / "checkpoints", read_only=True) as checkpoints:
            theirs, _ = checkpoints.restore("latest", ours)
        check = functools.partial(np.testing.assert_allclose, **CLOSE)
        jax.tree.map(check, ours.params, theirs.params)
    # The tolerance tells members apart: each differs from the others by far more.
    kernels = np.asarray(sweep.states.params["head"]["kernel"])
    for one, other in ((0, 1), (0, 2)):
        assert not np.allclose(kernels[one], kernels[other], **CLOSE)


def test_shared_order(config, splits):
    """The first seed's batches for all: for that seed nothing changes."""
    own, shared = (
        Sweep(config, splits, MEMBERS, shared_order=order) for order in (False, True)
    )
    for sweep in (own, shared):
        sweep.train(0, 3)
    # Only the order differs, so that equal members show that it was the first's.
    for i, same in enumerate((True, True, False)):
        ours, theirs = (
            np.asarray(s.states.params["head"]["kernel"][i]) for s in (own, shared)
        )
        assert np.allclose(ours, theirs, **CLOSE) == same


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data__validation": "test"}, "chooses on images held out"),
        ({"schedule__name": "plateau"}, "follows one run's losses"),
        ({"optim__learning_rate": 0.0}, "multiples of it"),
    ],
)
def test_refused(tiny_config, changes, message):
    with pytest.raises(UserError, match=message):
        check_sweep(tiny_config(**changes))


def test_command(tmp_path):
    out = tmp_path / "sweep.json"
    settings = ["num_steps=4", "eval_every=2 steps", "batch_size=16", "model.depth=1"]
    command = [sys.executable, "-m", "experiments.sweep", f"--out={out}"]
    command += ["--config=configs/vit_digits.py", "--learning_rates=1e-3,3e-3"]
    command += ["--seeds=0,1", "--config.model.width=16", "--config.schedule.warmup=1"]
    done = subprocess.run(
        [*command, *(f"--config.{setting}" for setting in settings)],
        cwd=pathlib.Path(__file__).parents[1],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(2) |") >= 4, done.stdout
    members = json.loads(out.read_text())["members"]
    pairs = [(m["learning_rate"], m["seed"]) for m in members]
    assert pairs == [(1e-3, 0), (1e-3, 1), (3e-3, 0), (3e-3, 1)]
    losses = [m["evaluations"][-1]["loss"] for m in members]
    assert len(set(losses)) == 4 and np.isfinite(losses).all()
