"""Two real processes, two devices each, train one run and fail as one."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import jax
import numpy as np
import pytest

from vit_jax.config import apply_overrides, load_config_file
from vit_jax.data import load
from vit_jax.errors import UserError
from vit_jax.parallel.startup_barrier import startup_barrier
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.manifest import verify
from vit_jax.training.experiment import make_experiment
from vit_jax.training.train import train_and_evaluate

SETTINGS = [
    "--config.model.depth=1", "--config.model.width=16", "--config.batch_size=16",
    "--config.num_steps=60", "--config.eval_every=30 steps",
    "--config.checkpoint_every=30 steps", "--config.log_every=2 steps",
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


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextlib.contextmanager
def running(count, *arguments):
    """`count` Python processes; "ADDRESS" and "ID" in the arguments are replaced."""
    address = f"127.0.0.1:{free_port()}"
    with contextlib.ExitStack() as stack:
        processes = []
        for i in range(count):
            words = {"ADDRESS": address, "ID": str(i)}
            process = subprocess.Popen(
                [sys.executable, *(words.get(word, word) for word in arguments)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={
                    **os.environ, "JAX_NUM_CPU_DEVICES": "2",
                    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
                },
            )  # fmt: skip
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        yield processes


def training(workdir, *arguments, count=2):
    """The first `count` of two processes that train."""
    return running(
        count, "-m", "vit_jax.main", f"--config={CONFIG}", f"--workdir={workdir}",
        "--num_processes=2", "--coordinator_address", "ADDRESS", "--process_id", "ID",
        *SETTINGS, *arguments,
    )  # fmt: skip


def outputs(processes, timeout=200):
    """(stdout, stderr) of each, once all have ended."""
    return [process.communicate(timeout=timeout) for process in processes]


def wait_for_log(workdir, process):
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None:
        if RunFolder(workdir).read_metrics():
            return
        time.sleep(0.02)
    raise AssertionError(f"nothing was logged: {process.communicate()}")


def train_losses(workdir):
    records = RunFolder(workdir).read_metrics()
    return {r["step"]: r["loss"] for r in records if r["split"] == "train"}


def newest(workdir):
    config = make_config(num_devices=1)
    experiment = make_experiment(config, load(config.data))
    with Checkpoints(RunFolder(workdir).checkpoints, read_only=True) as checkpoints:
        target = jax.eval_shape(experiment.init_state)
        return checkpoints.restore("latest", target)[0]


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
        wait_for_log(workdir, both[0])
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
    with training(workdir, *changes) as both:
        texts = outputs(both)
        assert [process.returncode for process in both] == [0, 0], texts
    return workdir, texts


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
    assert len(two) >= 2
    np.testing.assert_allclose(
        list(two.values()), [one[step] for step in two], rtol=LOSS_TOLERANCE
    )


@pytest.mark.slow
def test_what_two_processes_saved_one_process_resumes(signalled, alone, tmp_path):
    workdir = shutil.copytree(signalled[0], tmp_path / "run")
    (checkpoint,) = (workdir / "checkpoints").glob("[0-9]*")
    verify(checkpoint / "state")
    hashed = json.loads((checkpoint / "state" / "manifest.json").read_text())["sha256"]
    assert {"array_metadatas/process_0", "array_metadatas/process_1"} <= hashed.keys()
    for process in ("ocdbt.process_0", "ocdbt.process_1"):
        assert any(name.startswith(f"{process}/d/") for name in hashed)
    results = train_and_evaluate(make_config(num_devices=1), workdir)
    assert results["num_steps"] == 60
    assert_close_states(newest(workdir), newest(alone))


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


AGREEMENTS = """
import sys
from vit_jax.parallel import processes, distributed
from vit_jax.parallel.commands import run_command
from vit_jax.errors import UserError
from vit_jax.parallel.mesh import make_mesh

def main(arguments):
    me = int(arguments[1])
    distributed.start(arguments[0], 2, me, timeout_seconds=100)
    assert processes.broadcast_from_primary(lambda: [me, None, 0.1]) == [0, None, 0.1]
    assert processes.start_max(10 * me + 5)() == 15
    assert [d.process_index for d in make_mesh(2).devices] == [0, 1]
    assert make_mesh(0).size == 4
    refuse(lambda: make_mesh(3), "3, but 2 processes")
    refuse(lambda: processes.broadcast_from_primary(lambda: fail(0)), "0 failed")
    words = ["Process 1 could not start", "1 failed"][me]
    refuse(lambda: processes.run_on_all(lambda: me == 1 and fail(me)), words)
    processes.require_same({"depth": 4})
    processes.require_same({"depth": 4, "seed": me})

def fail(number):
    raise UserError(f"{number} failed")

def refuse(function, words):
    try:
        function()
    except UserError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)

run_command(main)
"""


@pytest.mark.slow
def test_processes_agree_and_fail_together():
    with running(2, "-c", AGREEMENTS, "ADDRESS", "ID") as both:
        (_, first), (_, second) = texts = outputs(both)
    assert [process.returncode for process in both] == [1, 1], texts
    assert "error: Process 1 could not start; see its own message." in first
    assert "error: Process 1 differs from process 0 (seed: 0 there, 1 here)" in second
    assert "Traceback" not in first + second


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
    """Why `distributed.leave` and `StopSignals` exist, as long as this passes."""
    with running(2, "-c", JAX_ALONE, "ADDRESS", "ID") as both:
        assert both[1].stdout.readline() == "leaving\n"
        time.sleep(8)  # longer than the others above need
        assert [process.poll() for process in both] == [None, None]


@pytest.mark.slow
def test_a_missing_process_is_named_by_the_command(tmp_path):
    with training(tmp_path, "--startup_timeout_seconds=2", count=1) as (process,):
        ((output, errors),) = outputs([process], timeout=60)
    assert process.returncode == 1 and output == ""
    assert errors.startswith("error: ") and errors.count("\n") == 1
    assert "did not start within 2 s: 1;" in errors
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_jax_alone_aborts_where_a_process_is_missing():
    """Why the start-up barrier exists, as long as this passes."""
    code = (
        "import jax, sys; jax.distributed.initialize(sys.argv[1], 2, 0, None, None, 1)"
    )
    with running(1, "-c", code, "ADDRESS") as (process,):
        ((_, errors),) = outputs([process], timeout=60)
    assert process.returncode == -signal.SIGABRT
    assert "Check failure stack trace" in errors


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
        (
            ["--coordinator_address=h:1", "--num_processes=two", "--process_id=0"],
            "--num_processes is two",
        ),
        (
            ["--coordinator_address=h:1", "--num_processes=2", "--process_id=2"],
            "count from 0",
        ),
        (
            ["--coordinator_address=h", "--num_processes=2", "--process_id=0"],
            "HOST:PORT",
        ),
    ],
)
def test_mistakes_in_the_flags_are_one_sentence(flags, words, capsys, monkeypatch):
    from vit_jax.main import main

    for name in (
        "SLURM_STEP_NODELIST", "KUBERNETES_SERVICE_HOST", "OMPI_MCA_orte_hnp_uri"
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match=words):
        main([f"--config={CONFIG}", "--workdir=never_made", *flags])
    assert not os.path.exists("never_made")


def call(address, ids, *, num_processes=3, timeout_seconds=1.0):
    """What each of several threads, one for each id, gets at the start-up barrier."""
    messages, connections = [None] * len(ids), []

    def run(place):
        try:
            opened = startup_barrier(
                address, num_processes, ids[place], timeout_seconds=timeout_seconds
            )
            connections.extend(opened.values())
        except UserError as error:
            messages[place] = str(error)

    threads = [threading.Thread(target=run, args=[i]) for i in range(len(ids))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    for connection in connections:
        connection.close()
    return messages


def test_the_startup_barrier_names_who_is_missing():
    address = f"127.0.0.1:{free_port()}"
    assert call(address, [2, 0, 1], timeout_seconds=20.0) == [None] * 3
    # The port is free again at once, as JAX needs it.
    for message in call(address, [0, 2]):
        assert "did not start within 1 s: 1;" in message
    (message,) = call(address, [1])
    assert f"nothing answered at {address}" in message
    primary, *both = call(address, [0, 1, 1])
    assert "within 1 s: 2;" in primary
    assert any("process 1 of 3 came" in message for message in both)


def test_strangers_do_not_disturb_the_startup_barrier():
    port = free_port()
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=1) as stranger,
            ):
                stranger.sendall(b"GET / HTTP/1.1\r\n" * 100)
            time.sleep(0.05)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        messages = call(f"127.0.0.1:{port}", [0, 1, 2], timeout_seconds=20.0)
    finally:
        stop.set()
        thread.join()
    assert messages == [None] * 3


def test_a_stranger_instead_of_process_0_is_told():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"220 mail ready\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        (message,) = call(address, [1])
        thread.join()
    assert "another program answers there" in message
