"""A sweep's members are the runs that would have been trained one by one."""

import json
import re
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.benchmarking.jax_step import load_config
from experiments.forecasting.programs import make_described
from experiments.sweep import main
from experiments.sweeping.loop import restore, run_sweep, save
from experiments.sweeping.members import Member, Sweep, check_sweep
from vit_jax import data
from vit_jax.config import apply_overrides, load_config_file
from vit_jax.errors import UserError
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.lock import lock
from vit_jax.runs.user_code import own_tables
from vit_jax.training.experiment import make_experiment
from vit_jax.training.plan import make_plan
from vit_jax.training.train import train_and_evaluate

RATE = 1e-3
MEMBERS = [Member(RATE, 0), Member(3 * RATE, 5)]
# Same operations in another order of additions; Adam divides by small numbers.
CLOSE = {"rtol": 1e-3, "atol": 2e-5}


@pytest.fixture(scope="module")
def config(tiny_config):
    # The seed decides alternating flips and dropout, which are both on.
    return tiny_config(augment__flip="alternating", model__dropout=0.1)


def test_exhausted_memory_is_one_sentence(config):
    def compile_nothing(lengths):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")

    sweep = types.SimpleNamespace(
        experiment=types.SimpleNamespace(plan=make_plan(config, 100)),
        members=MEMBERS, compile=compile_nothing,
    )  # fmt: skip
    with pytest.raises(UserError, match="exhausted by 2 members at once"):
        run_sweep(sweep, steps_per_dispatch=1)


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
    history = run_sweep(sweep, steps_per_dispatch=2).history
    for i, (params, evaluations) in enumerate(alone):
        assert is_close(sweep, i, params)
        assert not is_close(sweep, 1 - i, params), "the tolerance tells members apart"
        for ours, theirs in zip(history[i], evaluations, strict=True):
            assert ours["step"] == theirs["step"]
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)


class Stopped(Exception):
    pass


@pytest.mark.slow
def test_a_sweep_resumed_at_every_checkpoint_has_the_same_bits(
    config, splits, tmp_path
):
    """Of everything: parameters, averages, the optimizer's state, the scores.

    Muon leaves all that are no matrices of a block to AdamW.
    """
    config = config.copy_and_resolve_references()
    config.optim.name, config.optim.ema_decay = "muon", 0.9
    config.eval_every = "2 steps"
    whole = Sweep(config, splits, MEMBERS)
    begin = jax.device_get(whole.states)
    expected = run_sweep(whole, steps_per_dispatch=2)
    assert expected.step == 6 and len(jax.tree.leaves(begin.opt_state)) > 3
    stops = []
    while stops[-1:] != [6]:
        sweep = Sweep(config, splits, MEMBERS)
        with Checkpoints(tmp_path) as checkpoints:
            done = restore(checkpoints, sweep)
            assert done.step == len(stops) * 2

            def keep(done, checkpoints=checkpoints, sweep=sweep):
                save(checkpoints, sweep, done)
                stops.append(done.step)
                raise Stopped

            with pytest.raises(Stopped):
                run_sweep(sweep, steps_per_dispatch=2, done=done, keep=keep)
    sweep = Sweep(config, splits, MEMBERS)
    with Checkpoints(tmp_path) as checkpoints:
        done = restore(checkpoints, sweep)
    jax.tree.map(np.testing.assert_array_equal, sweep.states, whole.states)
    assert (done.step, done.history) == (6, expected.history)
    moved = jax.tree.map(lambda a, b: (a != b).any(), sweep.states.params, begin.params)
    assert all(jax.tree.leaves(moved))


@pytest.mark.slow
def test_a_killed_sweep_goes_on_and_refuses_another_one(tmp_path, capsys):
    settings = ["num_steps=30", "eval_every=10 steps", "log_every=5 steps"]
    settings += ["model.depth=1", "model.width=16", "schedule.warmup=1 step"]
    settings += ["batch_size=16"]

    def command(*more):
        return [
            f"--out={tmp_path}/pieces.json", "--config=configs/vit_digits.py",
            "--seeds=2", *(f"--config.{x}" for x in settings), *more,
        ]  # fmt: skip

    line = [sys.executable, "-m", "experiments.sweep", *command()]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(line, **pipes) as process:
        assert process.stdout.readline() == "loading digits ...\n"
        # Two lines of losses and one of an accuracy until each evaluation.
        shown = [process.stderr.readline() for _ in range(6)]
        process.kill()
    assert shown[0].startswith("step 5/30: loss ") and "images/s" in shown[0]
    assert shown[2].startswith("step 10/30: best val accuracy ")
    assert shown[5].startswith("step 20/30: best val accuracy ")
    in_use = pytest.raises(
        UserError, match=r"pieces\.json is in use by process .* another --out"
    )
    with lock(tmp_path / "pieces.lock.json"), in_use:
        main(command())
    with pytest.raises(
        UserError, match=r"differs in optim\.weight_decay, --learning_r"
    ):
        main(command("--learning_rates=1e-2", "--config.optim.weight_decay=0"))
    capsys.readouterr()
    for step in ("[12]0", "30"):
        main(command())
        assert re.search(f"going on from step {step}\n", capsys.readouterr().out)
    members = json.loads((tmp_path / "pieces.json").read_text())["members"]
    assert [len(member["evaluations"]) for member in members] == [3, 3]


@pytest.mark.slow
def test_what_was_measured_is_kept(config, splits):
    """After each evaluation, and when no member has a finite loss any more."""
    sweep, kept = Sweep(config, splits, [Member(RATE, 0)]), []

    def keep(done):
        kept.append([record["step"] for record in done.history[0]])
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
        ({"early_stopping__target": 0.9}, "members of a sweep end together"),
        ({"optim__learning_rate": 0.0}, "multiples of it"),
        ({"distill__teacher": "run"}, "without a teacher"),
        (
            {"objective": "masked_autoencoding", "data__select_on": "nothing"},
            "which has no accuracy, but a sweep ranks its members by that",
        ),
        ({"stages": ({"num_epochs": 1},)}, r"^config\.stages is set, but a sweep"),
    ],
)
def test_refused(tiny_config, changes, message):
    with pytest.raises(UserError, match=message):
        check_sweep(tiny_config(**changes))


@pytest.mark.parametrize("command", ["sweep", "benchmark", "forecast"])
def test_code_of_ones_own_is_known_to_every_command(tmp_path, monkeypatch, command):
    # The file does not become trusted on this machine.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "own.py"
    file.write_text("SOURCES = {'mine': lambda config_data: 1 / 0}\n")
    settings = [f"--config.code={file}", "--config.data.source=mine"]
    with own_tables():
        if command == "benchmark":  # whose images are random
            load_config("vit_laptop", 8, settings)
            assert "mine" in data.SOURCES
            return
        with pytest.raises(UserError, match=r"own.py, line 1 .ZeroDivisionError: "):
            if command == "sweep":
                out = f"--out={tmp_path}/a.json"
                main([out, "--config=configs/vit_digits.py", *settings])
            else:
                config = apply_overrides(load_config_file("vit_digits"), settings)
                make_described(config, types.SimpleNamespace(compute_capability="9.0"))


def test_learning_rates_are_checked(tmp_path):
    arguments = [f"--out={tmp_path}/a.json", "--config=configs/vit_digits.py"]
    with pytest.raises(UserError, match=r"learning_rate is -1\.0, but"):
        main([*arguments, "--learning_rates=1e-3,-1"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--seeds=0,1,2", "write --seeds=3 for three seeds"),
        ("--num_epochs=0", "--num_epochs: 0 is not a finite number above 0"),
        ("--config.seed=3", "--seeds=N says how many"),
        ("--config.seed", "--seeds=N says how many"),
        ("--learning_rates=1e-3;1", "no list of numbers; write for example"),
        ("--out=runs/lr0.001", "lr0.001 must be a file that ends in .json"),
        ("--num_epochs=1 --config.num_steps=9", "num_steps=9 each give a length"),
        ("--data=files", "trains on scikit-learn's digits; leave it out"),
        ("--data=files --config.data.dir=d", "leave out --config.data.dir=d"),
    ],
)
def test_options_that_say_nothing_are_refused(tmp_path, given, message):
    with pytest.raises(UserError, match=message):
        out = f"--out={tmp_path}/a.json"
        main([out, "--config=configs/vit_digits.py", *given.split(" ")])


@pytest.mark.slow
def test_command(tmp_path, capsys):
    out = tmp_path / "sweep.json"
    # --num_epochs goes before the config's own length: 0.05 of 79 steps.
    settings = ["eval_every=2 steps", "batch_size=16", "model.depth=1"]
    settings += ["schedule.warmup=1 step", "model.width=16"]
    main(
        [
            f"--out={out}", "--config=configs/vit_digits.py", "--seeds=2",
            "--num_epochs=0.05", "--learning_rates=1e-3,3e-3",
            *(f"--config.{x}" for x in settings),
        ]
    )  # fmt: skip
    said = capsys.readouterr().out
    assert said.count("(2) |") >= 4
    first, *rows = said.partition("\ncompiling ")[0].splitlines()
    names = ["device", "data", "model", "schedule", "members"]
    assert first == "loading digits ..." and [row.split()[0] for row in rows] == names
    assert " 4: learning rates 0.001, 0.003 " in rows[-1] and "seeds 0, 1" in rows[-1]
    assert "  4 steps of 16 images" in rows[-2]
    members = json.loads(out.read_text())["members"]
    pairs = [(m["learning_rate"], m["seed"]) for m in members]
    assert pairs == [(1e-3, 0), (1e-3, 1), (3e-3, 0), (3e-3, 1)]
    losses = [m["evaluations"][-1]["loss"] for m in members]
    assert len(set(losses)) == 4 and np.isfinite(losses).all()
