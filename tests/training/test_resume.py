"""A run that is interrupted and resumed ends with the bits of an uninterrupted one."""

import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from tests.parallel.running import run_code, train_losses, wait_for_step
from tests.training.made import (
    RESNET,
    differing,
    interrupted,
    newest,
    without_times,
)
from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run
from vit_jax.training.train import train_and_evaluate

VIT = {
    "model__dropout": 0.1, "model__drop_path": 0.1, "optim__ema_decay": 0.9,
    "augment__mixup_alpha": 0.2, "augment__cutmix_alpha": 1.0,
    "augment__flip": "alternating", "optim__num_microbatches": 2,
    "optim__clip_norm": 1.0, "eval_every": "2 steps", "num_steps": 3,
}  # fmt: skip
NOISE = {
    "model__dropout": 0.1, "optim__ema_decay": 0.9, "augment__mixup_alpha": 0.2,
    "augment__flip": "alternating",
}  # fmt: skip
PLATEAU = RESNET | {
    "optim__name": "sgd", "schedule__name": "plateau", "schedule__plateau_patience": 1,
    "schedule__plateau_min_delta": 0.5, "eval_every": "1 steps", "num_steps": 3,
}  # fmt: skip
MASKED = {
    "objective": "masked_autoencoding", "data__select_on": "nothing",
    "mae__decoder_width": 8, "mae__decoder_depth": 1, "mae__decoder_heads": 2,
    "model__dropout": 0.1, "optim__num_microbatches": 2, "eval_every": "1 steps",
    "num_steps": 2,
}  # fmt: skip


@pytest.mark.usefixtures("no_curves")
@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [VIT, PLATEAU, MASKED],
    ids=["vit", "resnet", "masked autoencoder"],
)
def test_resume_at_every_step_is_exact(tiny_config, tmp_path, changes):
    config = tiny_config(**changes)
    whole = train_and_evaluate(config, tmp_path / "whole")
    for step in range(1, config.num_steps):
        with interrupted() as interruption:
            train_and_evaluate(config, tmp_path / "pieces")
        assert interruption.value.step == step
        assert interruption.value.exit_status == 143
        assert int(newest(tmp_path / "pieces").step) == step
    pieces = train_and_evaluate(config, tmp_path / "pieces")
    assert not differing(newest(tmp_path / "whole"), newest(tmp_path / "pieces"))
    assert without_times(whole) == without_times(pieces)
    logged = [RunFolder(tmp_path / name).read_metrics() for name in ("whole", "pieces")]
    val = [
        [(r["step"], r["loss"]) for r in records if r["split"] == "val"]
        for records in logged
    ]
    assert val[0] == val[1]
    for clock in ("seconds", "cpu_seconds"):
        counted = [record[clock] for record in logged[1]]
        assert counted == sorted(counted) and counted[0] > 0


@pytest.mark.usefixtures("no_curves")
@pytest.mark.slow
def test_a_resumed_student_keeps_its_teacher(tiny_config, tiny_run, tmp_path):
    teacher, moved, student = (tmp_path / name for name in ("teacher", "moved", "run"))
    train_and_evaluate(tiny_config(**PLATEAU), teacher)
    config = tiny_config(
        **VIT, distill__teacher=str(teacher), model__distillation_token=True
    )
    with interrupted():
        train_and_evaluate(config, student)
    assert 0 <= RunFolder(student).read_metrics()[0]["teacher_accuracy"] <= 1

    teacher.rename(moved)
    shutil.copytree(tiny_run[0], teacher)
    with pytest.raises(UserError, match=r"settings \(the teacher's checkpoint has"):
        train_and_evaluate(config, student)
    with pytest.raises(UserError, match=r"distill.sha256: '\w{64}' -> ''"):
        train_and_evaluate(tiny_config(**VIT, model__distillation_token=True), student)
    # The same teacher in another folder is the same teacher.
    config.distill.teacher = str(moved)
    assert train_and_evaluate(config, student)["num_steps"] == VIT["num_steps"]


@pytest.mark.slow
def test_a_finished_run_is_not_trained_again(tiny_run, copied_run, tiny_config):
    before = newest(copied_run)
    curves = copied_run / "figures" / "training_curves.png"
    curves.unlink()  # as if the process had ended before it was drawn
    (curves.parent / "reconstructions.png").touch()
    config = tiny_config(data__subset_test_per_class=5)
    assert train_and_evaluate(config, copied_run) == tiny_run[1]
    assert not differing(before, newest(copied_run)) and curves.exists()


def test_a_run_keeps_its_dtype_on_another_machine(tiny_run, tiny_config, monkeypatch):
    workdir, results = tiny_run
    config = tiny_config(data__subset_test_per_class=5)
    assert config.model.dtype == "auto"
    monkeypatch.setattr(backend, "auto_dtype", lambda: "bfloat16")
    assert train_and_evaluate(config, workdir) == results
    config["model.dtype"] = "bfloat16"
    with pytest.raises(UserError, match=r"model\.dtype: 'float32' -> 'bfloat16'"):
        train_and_evaluate(config, workdir)


def test_a_changed_config_is_refused_by_key(tiny_run, tiny_config):
    workdir, _ = tiny_run
    config = tiny_config(
        model__depth=2, optim__learning_rate=0.5, data__subset_test_per_class=5
    )
    with pytest.raises(UserError) as refusal:
        train_and_evaluate(config, workdir)
    for words in (
        "model.depth: 1 -> 2",
        "optim.learning_rate: 0.001 -> 0.5",
        "--resume_with_changes",
    ):
        assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch_size": 8}, r"batch_size=16, which cannot become 8"),
        ({"linear_probe": True}, "linear_probe=False, which cannot become True"),
        ({"data__select_on": "nothing"}, "select_on='val', which cannot become 'no"),
        ({"data__split_seed": 1}, "split_seed=0, which cannot become 1"),
        ({"pretrained__path": "w"}, "pretrained.path='', which cannot become 'w'"),
        ({"model__layer_init": "pytorch"}, "layer_init='normal', which cannot become"),
        ({"model__layer_scale": 0.1}, "layer_scale=0.0, which cannot become 0.1"),
    ],
)
def test_what_steps_are_counted_and_chosen_by_never_changes(
    tiny_run, tiny_config, changes, words
):
    workdir, _ = tiny_run
    before = (workdir / "config.json").read_bytes()
    config = tiny_config(data__subset_test_per_class=5, **changes)
    with pytest.raises(UserError, match=words):
        train_and_evaluate(config, workdir, resume_with_changes=True)
    assert (workdir / "config.json").read_bytes() == before


def test_a_finished_run_without_checkpoints_is_not_trained_anew(
    copied_run, tiny_config
):
    shutil.rmtree(copied_run / "checkpoints")
    before = (copied_run / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match="its checkpoints are gone; restore"):
        train_and_evaluate(tiny_config(data__subset_test_per_class=5), copied_run)
    assert (copied_run / "metrics.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_change_that_does_not_fit_leaves_the_run_as_it_was(tiny_config, copied_run):
    before = (copied_run / "config.json").read_bytes()
    changed = tiny_config(model__depth=2, data__subset_test_per_class=5)
    with pytest.raises(UserError, match="does not fit"):
        train_and_evaluate(changed, copied_run, resume_with_changes=True)
    assert (copied_run / "config.json").read_bytes() == before


@pytest.mark.slow
def test_a_finished_run_keeps_its_settings(tiny_config, copied_run):
    """Nothing would be trained with the others."""
    names = ("config.json", "environment.json", "results.json")
    before = [(copied_run / name).read_bytes() for name in names]
    changed = tiny_config(data__subset_test_per_class=5, optim__learning_rate=0.5)
    with pytest.raises(UserError, match=r"6 steps.*learning_rate.*larger config.num"):
        train_and_evaluate(changed, copied_run, resume_with_changes=True)
    as_long = {"num_steps": None, "num_epochs": 0.0745}
    config = tiny_config(data__subset_test_per_class=5, **as_long)
    with pytest.raises(UserError, match=r"would train none.* larger config.num_epochs"):
        train_and_evaluate(config, copied_run, resume_with_changes=True)
    train_and_evaluate(tiny_config(data__subset_test_per_class=5), copied_run)
    assert [(copied_run / name).read_bytes() for name in names] == before


@pytest.mark.slow
def test_a_run_can_be_made_longer(tiny_config, copied_run, capsys):
    longer = tiny_config(data__subset_test_per_class=5, num_steps=7)
    results = train_and_evaluate(longer, copied_run, resume_with_changes=True)
    assert results["num_steps"] == 7
    said = capsys.readouterr().out
    assert "resuming with other settings: num_steps: 6 -> 7" in said
    assert RunFolder(copied_run).read("config")["num_steps"] == 7
    assert len(RunFolder(copied_run).read("environment")["earlier_starts"]) == 1
    # It is no seed of runs that had this length from the beginning.
    assert RunFolder(copied_run).read_changes() == ["after step 6: num_steps: 6 -> 7"]


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_and_keeps_the_best(tiny_config, tmp_path):
    train_and_evaluate(tiny_config(optim__name="sgd", num_steps=2), tmp_path)
    best = load_run(tmp_path)
    exploding = tiny_config(
        optim__name="sgd", optim__learning_rate=1e30, num_steps=12,
        eval_every="12 steps", checkpoint_every="2 steps", log_every="1 steps",
        schedule__name="constant",
    )  # fmt: skip
    with pytest.raises(UserError, match=r"(nan|inf).* in steps \d+ to \d+"):
        train_and_evaluate(exploding, tmp_path, resume_with_changes=True)
    after = load_run(tmp_path)
    assert after.step == best.step
    assert not differing(after.variables, best.variables)


@pytest.mark.slow
@pytest.mark.parametrize("num_steps", [1, 3])
def test_a_validation_loss_that_is_not_finite_is_not_saved(
    tiny_config, tmp_path, num_steps
):
    """The loss of a step is finite whose update spoils the parameters."""
    config = tiny_config(
        optim__name="sgd", optim__weight_decay=0.0, optim__learning_rate=1e38,
        num_steps=num_steps, eval_every="1 steps", schedule__warmup="0 steps",
    )  # fmt: skip
    with pytest.raises(UserError, match=r"val loss is (nan|inf) after step 1; try a"):
        train_and_evaluate(config, tmp_path)
    assert not RunFolder(tmp_path).has_checkpoints()


def start(workdir, *arguments):
    command = [
        sys.executable, "-m", "vit_jax.main", "--config=configs/vit_digits.py",
        f"--workdir={workdir}", "--config.model.depth=1", "--config.model.width=16",
        "--config.num_steps=200", "--config.eval_every=100 steps",
        "--config.checkpoint_every=0.2 seconds", "--config.log_every=10 steps",
        "--config.schedule.warmup=10 steps", "--config.batch_size=16", *arguments,
    ]  # fmt: skip
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"JAX_NUM_CPU_DEVICES": "1"},
    )  # fmt: skip


@pytest.mark.slow
def test_a_real_process_is_killed_and_signalled_and_ends_with_the_same_bits(tmp_path):
    """SIGKILL and Ctrl-C at any moment change no bit of the result."""
    whole = start(tmp_path / "whole")
    pieces = tmp_path / "pieces"
    for number, status, at in (
        (signal.SIGKILL, -9, 40),
        (signal.SIGINT, 130, 80),
    ):
        process = start(pieces)
        wait_for_step(pieces, at, process)
        # A folder has another name until its checkpoint is complete.
        while not any(p.name.isdigit() for p in (pieces / "checkpoints").iterdir()):
            time.sleep(0.01)
            assert process.poll() is None
        process.send_signal(number)
        output, errors = process.communicate(timeout=240)
        assert process.returncode == status, errors
        assert ("resuming from step" in output) == (at != 40)
        if status > 0:
            saved = int(
                re.search(r"saved step (\d+); rerun the same command", errors)[1]
            )
            assert int(newest(pieces).step) == saved >= at
        assert "Traceback" not in errors
    for process, workdir in ((whole, tmp_path / "whole"), (start(pieces), pieces)):
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        assert int(newest(workdir).step) == 200
    assert not differing(newest(tmp_path / "whole"), newest(pieces))
    environment = json.loads((pieces / "environment.json").read_text())
    assert len(environment["earlier_starts"]) == 2


@pytest.mark.slow
def test_a_second_signal_ends_at_once_and_leaves_the_checkpoint(tmp_path):
    process = start(tmp_path, "--config.checkpoint_every=10 steps")
    wait_for_step(tmp_path, 30, process)
    # Both arrive before the stopped process can answer the first.
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (143, 130)
    assert "saved step" not in errors and "Traceback" not in errors
    assert int(newest(tmp_path).step) >= 10


@pytest.mark.slow
def test_a_damaged_newest_checkpoint_costs_steps_and_no_bits(
    tiny_config, tiny_run, copied_run, capsys
):
    arrays = max((copied_run / "checkpoints" / "6").rglob("d/*"), key=os.path.getsize)
    flipped = bytearray(arrays.read_bytes())
    flipped[len(flipped) // 2] ^= 1
    arrays.write_bytes(flipped)
    config = tiny_config(data__subset_test_per_class=5)
    with pytest.warns(UserWarning, match=arrays.name):
        train_and_evaluate(config, copied_run)
    assert "resuming from step 3" in capsys.readouterr().out
    assert not differing(newest(tiny_run[0]), newest(copied_run))


@pytest.mark.slow
def test_where_batches_wait_and_how_many_go_at_once_changes_no_bits(
    tiny_config, tmp_path
):
    """Also behind a dispatch that is shorter than the program.

    A program of one step has no loop, so XLA may round it otherwise than several steps.
    XLA fuses the operations as it does for users. By the older way of the other tests,
    two programs of one step that get their batch in different ways round differently.
    """
    config = tiny_config(num_steps=6, eval_every="3 steps", **NOISE)
    configs, states = {}, {}
    for name, size, placement in (
        ("single", 1, "device"),
        ("fed singly", 1, "host"),
        ("three", 3, "device"),
        ("fed pairs", 2, "host"),
    ):
        config.steps_per_dispatch, config.data.placement = size, placement
        configs[str(tmp_path / name)] = config.to_dict()
    trained = run_code(
        "import json, sys, vit_jax\n"
        "for workdir, config in json.loads(sys.argv[1]).items():\n"
        "    vit_jax.train(config, workdir)",
        json.dumps(configs),
        env={**os.environ, "XLA_FLAGS": "--xla_backend_optimization_level=0"},
    )
    assert trained.returncode == 0, trained.stderr
    for workdir in map(pathlib.Path, configs):
        states[workdir.name] = newest(workdir)
    assert not differing(states["single"], states["fed singly"])
    assert not differing(states["three"], states["fed pairs"])
    # Rounding was seen to move a parameter by 9e-8 in these steps.
    close = functools.partial(np.testing.assert_allclose, atol=1e-6)
    jax.tree.map(close, states["three"].params, states["single"].params)
    jax.tree.map(close, states["three"].ema, states["single"].ema)

    def sum_of_losses(name):
        losses, before = train_losses(tmp_path / name), 0
        total = 0.0
        for step, mean in losses.items():
            total, before = total + (step - before) * mean, step
        assert before == 6
        return total

    for name in states:
        assert sum_of_losses(name) == pytest.approx(sum_of_losses("single"), rel=1e-6)
