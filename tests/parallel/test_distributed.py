"""Two real processes with two devices each train one run and fail together."""

import json
import os
import re
import shutil
import signal
import time

import jax
import numpy as np
import pytest

from tests.parallel.running import (
    free_port,
    outputs,
    running,
    train_losses,
    wait_for_step,
)
from tests.training.made import differing, newest
from vit_jax.config import apply_overrides, load_config_file
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.manifest import verify
from vit_jax.training.train import train_and_evaluate

SETTINGS = [
    "--config.model.depth=1", "--config.model.width=16", "--config.batch_size=16",
    "--config.num_steps=60", "--config.eval_every=30 steps",
    "--config.checkpoint_every=30 steps", "--config.log_every=5 steps",
    "--config.schedule.warmup=4 steps",
]  # fmt: skip
CONFIG = "configs/vit_digits.py"
# Sums over the batch are taken in another order: float32 rounding, which Adam's first
# steps enlarge where a gradient is close to zero.
LOSS_TOLERANCE = 1e-3
PARAMETER_TOLERANCE = 5e-3


def make_config(**changes):
    return apply_overrides(load_config_file(CONFIG), [
        *SETTINGS, *(f"--config.{name}={value}" for name, value in changes.items())
    ])  # fmt: skip


def training(workdir, *arguments, count=2):
    """The first `count` of two processes that train."""
    return running(
        count, "-m", "vit_jax.main", f"--config={CONFIG}", f"--workdir={workdir}",
        "--num_processes=2", "--coordinator_address", "ADDRESS", "--process_id", "ID",
        *SETTINGS, *arguments,
    )  # fmt: skip


def finished(workdir, *arguments):
    """(stdout, stderr) of two processes that have trained to the end."""
    with training(workdir, *arguments) as both:
        texts = outputs(both)
    assert [process.returncode for process in both] == [0, 0], texts
    return texts


def assert_close_states(a, b):
    assert int(a.step) == int(b.step)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, atol=PARAMETER_TOLERANCE),
        a.params, b.params,
    )  # fmt: skip


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The folder of an uninterrupted run of one process with one device."""
    workdir = tmp_path_factory.mktemp("alone")
    train_and_evaluate(make_config(num_devices=1), workdir)
    return workdir


@pytest.fixture(scope="module")
def signalled(tmp_path_factory):
    """(folder, statuses, outputs): SIGTERM came to the second process only."""
    workdir = tmp_path_factory.mktemp("signalled")
    with training(workdir) as both:
        wait_for_step(workdir, 10, both[0])  # the second record
        both[1].send_signal(signal.SIGTERM)
        texts = outputs(both)
        return workdir, [process.returncode for process in both], texts


@pytest.fixture(scope="module")
def resumed(alone, tmp_path_factory):
    """(folder, outputs): two processes go on from half-way, with the state divided."""
    workdir = shutil.copytree(alone, tmp_path_factory.mktemp("resumed") / "run")
    shutil.rmtree(workdir / "checkpoints" / "60")
    (workdir / "results.json").unlink()
    changes = ("--config.parameter_overview=true", "--config.shard_params=true")
    return workdir, finished(workdir, *changes)


@pytest.mark.slow
def test_a_signal_to_one_process_stops_both_at_one_step(signalled):
    workdir, statuses, texts = signalled
    assert statuses == [143, 143], texts
    steps = [re.findall(r"saved step (\d+); rerun", errors) for _, errors in texts]
    assert len(steps[0]) == 1 and steps[0] == steps[1]
    assert int(newest(workdir).step) == int(steps[0][0]) < 60
    assert not any("Traceback" in errors for _, errors in texts)


@pytest.mark.slow
def test_two_processes_train_as_one_does(signalled, alone):
    one, two = train_losses(alone), train_losses(signalled[0])
    # The last interval was cut short by the signal.
    steps = sorted(one.keys() & two.keys())
    assert len(steps) >= 2
    np.testing.assert_allclose(
        [two[step] for step in steps], [one[step] for step in steps],
        rtol=LOSS_TOLERANCE,
    )  # fmt: skip


@pytest.mark.slow
def test_two_processes_learn_from_a_run_and_start_from_it(tmp_path):
    stem = {
        "model.stem": "conv", "model.stem_channels": "(8,)",
        "model.stem_norm": "batch", "num_steps": "6",
    }  # fmt: skip
    before, after = tmp_path / "before", tmp_path / "after"
    train_and_evaluate(make_config(num_devices=1, **stem), before)
    settings = [f"--config.{key}={value}" for key, value in stem.items()]
    settings += [f"--config.distill.teacher={before}"]
    settings += [f"--config.pretrained.path={before}"]
    finished(after, *settings)
    assert RunFolder(after).read("results")["num_steps"] == 6
    assert RunFolder(after).read("pretrained")["mapped"]


@pytest.mark.slow
def test_the_first_of_two_processes_solves_the_probe_for_both(tmp_path):
    """Their CPUs may round differently, so that they would find other parameters."""
    code = (
        "import sys\n"
        "from vit_jax.main import run\n"
        "from vit_jax.training import linear_probe\n"
        "if sys.argv[-1] == '1':\n"
        "    linear_probe.fit_logistic = None\n"
        "run()\n"
    )
    with running(
        2, "-c", code, f"--config={CONFIG}", f"--workdir={tmp_path}",
        "--config.linear_probe=true", "--config.data.validation=100",
        "--num_processes=2", "--coordinator_address", "ADDRESS", "--process_id", "ID",
    ) as both:  # fmt: skip
        texts = outputs(both)
    assert [process.returncode for process in both] == [0, 0], texts
    assert RunFolder(tmp_path).read("results")["best_step"] == 0


def saved_steps(workdir):
    return {int(path.name) for path in (workdir / "checkpoints").glob("[0-9]*")}


@pytest.mark.slow
def test_two_processes_resume_with_the_same_bits_and_save_by_the_clock(
    signalled, alone, tmp_path
):
    pieces, whole = shutil.copytree(signalled[0], tmp_path / "pieces"), tmp_path / "w"
    # The one goes on from where its second process was stopped; the other also saves
    # by the clock of its first process, which leaves more than evaluations do.
    finished(pieces)
    finished(whole, "--config.checkpoint_every=0.01 seconds")
    assert not differing(newest(pieces), newest(whole))
    saved = saved_steps(whole)
    before = max(saved - {30, 60})
    assert before > 30
    for step in saved - {before}:
        shutil.rmtree(whole / "checkpoints" / str(step))
    (whole / "results.json").unlink()
    state = whole / "checkpoints" / str(before) / "state"
    verify(state)
    hashed = json.loads((state / "manifest.json").read_text())["sha256"]
    assert {"array_metadatas/process_0", "array_metadatas/process_1"} <= hashed.keys()
    for process in ("ocdbt.process_0", "ocdbt.process_1"):
        assert any(name.startswith(f"{process}/d/") for name in hashed)
    train_and_evaluate(make_config(num_devices=1), whole)
    assert_close_states(newest(whole), newest(alone))


@pytest.mark.slow
def test_what_one_process_saved_two_processes_resume(resumed, alone):
    workdir, texts = resumed
    assert "resuming from step 30" in texts[0][0]
    one, two = train_losses(alone), train_losses(workdir)
    assert one.keys() == two.keys()
    np.testing.assert_allclose(
        list(two.values()), list(one.values()), rtol=LOSS_TOLERANCE
    )
    assert_close_states(newest(workdir), newest(alone))
    results = [RunFolder(path).read("results") for path in (alone, workdir)]
    assert [result["num_devices"] for result in results] == [1, 4]
    assert results[0]["test"]["num_examples"] == results[1]["test"]["num_examples"]
    assert results[0]["test"]["loss"] == pytest.approx(
        results[1]["test"]["loss"], rel=LOSS_TOLERANCE
    )


@pytest.mark.slow
def test_only_the_first_process_writes_and_prints(resumed):
    workdir, ((first, _), (second, errors)) = resumed
    assert "test accuracy" in first and "device  4 x cpu" in first
    assert second == ""
    assert "step " not in errors and "warning" not in errors
    environment = json.loads((workdir / "environment.json").read_text())
    assert environment["num_processes"] == 2
    assert len(environment["earlier_starts"]) == 1
    steps = [r["step"] for r in RunFolder(workdir).read_metrics()]
    assert steps == sorted(steps) and steps.count(30) == steps.count(60) == 2


ENDS = """
import os, signal, sys, time
from vit_jax.parallel import distributed
from vit_jax.parallel.commands import run_command
from vit_jax.errors import UserError

def main(arguments):
    distributed.start(arguments[0], 3, int(arguments[1]), timeout_seconds=100)
    if arguments[1] != "1":
        time.sleep(100)
    elif arguments[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    raise UserError("It failed.")

run_command(main)
"""


JAX_ALONE = """
import jax, os, signal, sys, time
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
if sys.argv[2] == "0":
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(2)
    time.sleep(100)
print("leaving", flush=True)
sys.exit(1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end, status", [("killed", -signal.SIGKILL), ("fails", 1)])
def test_a_process_that_ends_alone_ends_the_others(end, status):
    with running(3, "-c", ENDS, "ADDRESS", "ID", end) as processes:
        texts = outputs(processes, timeout=60)
    assert [process.returncode for process in processes] == [1, status, 1], texts
    assert ("error: It failed.\n" in texts[1][1]) == (end == "fails")
    for _, errors in (texts[0], texts[2]):
        assert "error: process 1 ended" in errors and "Traceback" not in errors
        assert "rerun the same commands" in errors


@pytest.mark.slow
def test_jax_alone_ends_neither_for_a_failure_nor_for_a_second_signal():
    """While this passes, `distributed.leave` and `StopSignals` are needed."""
    with running(2, "-c", JAX_ALONE, "ADDRESS", "ID") as both:
        assert both[1].stdout.readline() == "leaving\n"
        time.sleep(8)  # longer than the others above need
        assert [process.poll() for process in both] == [None, None]


@pytest.mark.slow
def test_a_missing_process_is_named_by_the_command(tmp_path):
    with training(tmp_path, "--startup_timeout_seconds=2", count=1) as (process,):
        ((output, errors),) = outputs([process], timeout=60)
    assert process.returncode == 1
    assert output.startswith("starting ") and output.count("\n") == 1
    assert errors.startswith("error: ") and errors.count("\n") == 1
    assert "did not start within 2 s: 1;" in errors
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_jax_alone_aborts_where_a_process_is_missing():
    """While this passes, the start-up barrier is needed."""
    code = (
        "import jax, sys; jax.distributed.initialize(sys.argv[1], 2, 0, None, None, 1)"
    )
    with running(1, "-c", code, "ADDRESS") as (process,):
        ((_, errors),) = outputs([process], timeout=60)
    assert process.returncode == -signal.SIGABRT
    assert "Check failure stack trace" in errors


@pytest.mark.slow
@pytest.mark.parametrize("nodes", ["127.0.0.1", "127.0.0.1,gpu2", "127.0.0.[1-3,7],b"])
def test_slurm_tells_who_is_in_the_job(monkeypatch, nodes):
    from vit_jax.main import main

    port = free_port()
    for name, value in {
        "SLURM_JOB_ID": "1", "SLURM_STEP_NODELIST": nodes, "SLURM_NTASKS": "3",
        "SLURM_PROCID": "1", "JAX_COORDINATOR_PORT": str(port),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    flags = ["--distributed", "--startup_timeout_seconds=1"]
    with pytest.raises(UserError, match=f"answered at 127.0.0.1:{port} within 1 s"):
        main([f"--config={CONFIG}", "--workdir=never_made", *flags])
    monkeypatch.delenv("SLURM_PROCID")
    with pytest.raises(UserError, match="incomplete SLURM job"):
        main([f"--config={CONFIG}", "--workdir=never_made", *flags])


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--num_processes=2"], "--coordinator_address and --process_id is missing"),
        (["--distributed", "--process_id=0"], "not both"),
        (["--distributed"], "found no complete SLURM"),
        (["--coordinator_address=h:1", "--num_processes=2", "--process_id=2"],
         "count from 0"),
        (["--coordinator_address=h", "--num_processes=2", "--process_id=0"],
         "HOST:PORT"),
    ],
)  # fmt: skip
def test_mistakes_in_the_flags_are_one_sentence(flags, words, capsys, monkeypatch):
    from vit_jax.main import main

    for name in (
        "SLURM_STEP_NODELIST", "KUBERNETES_SERVICE_HOST", "OMPI_MCA_orte_hnp_uri"
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match=words):
        main([f"--config={CONFIG}", "--workdir=never_made", *flags])
    assert not os.path.exists("never_made")
