"""A sweep's members are the runs that would have been trained one by one."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.sweep import main, run_sweep
from experiments.sweeping.members import Member, Sweep, check_sweep
from vit_jax import data
from vit_jax.errors import UserError
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.folder import RunFolder
from vit_jax.training.experiment import make_experiment
from vit_jax.training.train import train_and_evaluate

RATE = 1e-3
MEMBERS = [Member(RATE, 0), Member(3 * RATE, 5)]
# Same operations in another order of additions; Adam divides by small numbers.
CLOSE = {"rtol": 1e-3, "atol": 2e-5}


@pytest.fixture(scope="module")
def config(tiny_config):
    # The seed decides alternating flips and dropout, which are both on.
    return tiny_config(augment__flip="alternating", model__dropout=0.1)


@pytest.fixture(scope="module")
def splits(config):
    return data.load(config.data)


@pytest.fixture(scope="module")
def alone(config, splits, tmp_path_factory):
    """(last parameters, evaluations) of each member, trained by the package's loop."""
    runs = []
    for member in MEMBERS:
        workdir = tmp_path_factory.mktemp("alone")
        own = config.copy_and_resolve_references()
        own.seed, own.optim.learning_rate = member.seed, member.learning_rate
        train_and_evaluate(own, workdir)
        target = make_experiment(own, splits).init_state()
        with Checkpoints(workdir / "checkpoints", read_only=True) as checkpoints:
            state, _ = checkpoints.restore("latest", target)
        records = RunFolder(workdir).read_metrics()
        runs.append((state.params, [r for r in records if r["split"] == "val"]))
    return runs


def is_close(sweep, index, params):
    own = jax.tree.map(lambda x: x[index], sweep.states.params)
    close = jax.tree.map(lambda a, b: bool(jnp.allclose(a, b, **CLOSE)), own, params)
    return all(jax.tree.leaves(close))


@pytest.mark.slow
def test_members_equal_single_runs(config, splits, alone):
    sweep = Sweep(config, splits, MEMBERS)
    # Evaluations after 3 and 6 steps need dispatches of 2 steps and of 1 step.
    history, _ = run_sweep(sweep, steps_per_dispatch=2)
    for i, (params, evaluations) in enumerate(alone):
        assert is_close(sweep, i, params)
        assert not is_close(sweep, 1 - i, params), "the tolerance tells members apart"
        for ours, theirs in zip(history[i], evaluations, strict=True):
            assert ours["step"] == theirs["step"]
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)


@pytest.mark.slow
def test_shared_order(config, splits, alone):
    """All members see the batches of the first seed, whose results do not change."""
    sweep = Sweep(config, splits, MEMBERS, shared_order=True)
    run_sweep(sweep, steps_per_dispatch=1)
    assert [is_close(sweep, i, alone[i][0]) for i in (0, 1)] == [True, False]


@pytest.mark.slow
def test_what_was_measured_is_kept(config, splits):
    """After each evaluation, and when no member has a finite loss any more."""
    sweep, kept = Sweep(config, splits, [Member(RATE, 0)]), []

    def keep(history, seconds):
        kept.append([record["step"] for record in history[0]])
        nan = jax.tree.map(lambda x: x * jnp.nan, sweep.states.params)
        sweep.states = sweep.states.replace(params=nan)

    with pytest.raises(UserError, match="not finite at step 6"):
        run_sweep(sweep, steps_per_dispatch=3, keep=keep)
    assert kept == [[3], [3]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"data__validation": 0, "data__select_on": "test"},
            "chooses on images held out",
        ),
        ({"schedule__name": "plateau"}, "follows one run's losses"),
        ({"optim__learning_rate": 0.0}, "multiples of it"),
        ({"distill__teacher": "run"}, "without a teacher"),
    ],
)
def test_refused(tiny_config, changes, message):
    with pytest.raises(UserError, match=message):
        check_sweep(tiny_config(**changes))


@pytest.mark.slow
def test_command(tmp_path, capsys):
    out = tmp_path / "sweep.json"
    settings = ["num_steps=4", "eval_every=2 steps", "batch_size=16", "model.depth=1"]
    settings += ["schedule.warmup=1 step", "model.width=16"]
    main(
        [
            f"--out={out}", "--config=configs/vit_digits.py", "--seeds=0,1",
            "--learning_rates=1e-3,3e-3", *(f"--config.{x}" for x in settings),
        ]
    )  # fmt: skip
    assert capsys.readouterr().out.count("(2) |") >= 4
    members = json.loads(out.read_text())["members"]
    pairs = [(m["learning_rate"], m["seed"]) for m in members]
    assert pairs == [(1e-3, 0), (1e-3, 1), (3e-3, 0), (3e-3, 1)]
    losses = [m["evaluations"][-1]["loss"] for m in members]
    assert len(set(losses)) == 4 and np.isfinite(losses).all()
