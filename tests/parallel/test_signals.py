"""Signals that are recorded, and a second one that ends the process."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.parallel.running import run_code
from vit_jax.parallel.signals import Interrupted, StopSignals

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_recorded_and_handlers_come_back(number, capfd):
    before = signal.getsignal(number)
    with StopSignals() as signals:
        assert signals.received is None
        os.kill(os.getpid(), number)
        assert signals.received == number
    assert signal.getsignal(number) is before
    assert "stopping after this step" in capfd.readouterr().err


def test_another_thread_leaves_the_handlers_alone():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work():
        with StopSignals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_second_signal_ends_the_process_at_once():
    code = (
        "import signal\n"
        "from vit_jax.parallel.signals import StopSignals\n"
        "with StopSignals():\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    print('goes on', flush=True)\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    print('not reached')\n"
    )
    result = run_code(code)
    assert result.returncode == 128 + signal.SIGTERM, result.stderr
    assert result.stdout == "goes on\n"


def test_an_interruption_says_how_to_go_on():
    error = Interrupted(7, signal.SIGTERM)
    assert (error.step, error.exit_status) == (7, 143)
    assert str(error) == "saved step 7; rerun the same command to resume (SIGTERM)"


TRAINING = [
    "--config=vit_digits", "--config.num_steps=6", "--config.model.depth=1",
    "--config.model.width=16", "--config.log_every=2 steps",
    "--config.schedule.warmup=1 steps", "--config.augment.crop=none",
]  # fmt: skip
# Compiles for longer than the test waits, in one call into C++.
COMPILES = """
import jax, jax.numpy as jnp, time
from vit_jax.parallel.commands import run_command
def step(x):
    for i in range(4000):
        x = jnp.sin(x @ x + i)
    return x
def main(arguments):
    lowered = jax.jit(step).lower(jnp.ones((8, 8)))
    print("compiling", flush=True)
    lowered.compile()
    print("too late", flush=True)
    time.sleep(60)
run_command(main)
"""


def wait(process, limit=60):
    """(status, standard error), and the seconds that it took."""
    start = time.monotonic()
    output, errors = process.communicate(timeout=limit)
    assert "too late" not in output, "the program was compiled before the signal"
    return process.returncode, errors, time.monotonic() - start


def start(command):
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_answered_while_a_program_is_compiled(number):
    process = start([sys.executable, "-c", COMPILES])
    assert process.stdout.readline() == "compiling\n"
    time.sleep(1)
    process.send_signal(number)
    status, errors, seconds = wait(process)
    assert status == 128 + number and seconds < 5
    assert errors.startswith("interrupted (SIG") and errors.count("\n") == 1


def test_programs_of_others_keep_their_own_ctrl_c(tmp_path):
    (tmp_path / "theirs").mkdir()
    code = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
    (tmp_path / "theirs" / "__init__.py").write_text(f"{code}\nimport vit_jax")
    code = "import signal\nprint(signal.getsignal(signal.SIGINT).__name__)"
    (tmp_path / "theirs" / "go.py").write_text(code)
    found = subprocess.run(
        [sys.executable, "-m", "theirs.go"], cwd=tmp_path, capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True, check=True,
    )  # fmt: skip
    assert found.stdout == "default_int_handler\n"


def test_a_signal_in_a_destructor_is_not_lost():
    code = (
        "import time\n"
        "from vit_jax.parallel.commands import run_command\n"
        "class Slow:\n"
        "    def __del__(self):\n"
        "        print('deleting', flush=True); time.sleep(60)\n"
        "run_command(lambda _: Slow() and None)\n"
    )
    process = start([sys.executable, "-c", code])
    assert process.stdout.readline() == "deleting\n"
    process.send_signal(signal.SIGINT)
    status, errors, _ = wait(process)
    assert status == 130 and errors.count("\n") == 1 and "Traceback" not in errors


def test_ctrl_c_after_the_last_line_changes_nothing():
    """Python calls `__del__` after it has given the signals their defaults back."""
    code = (
        "import os, signal\n"
        "from vit_jax.parallel.commands import run_command\n"
        "class Late:\n"
        "    call = os.kill, os.getpid(), signal.SIGINT\n"
        "    def __del__(self):\n"
        "        kill, *arguments = self.call\n"
        "        kill(*arguments)\n"
        "late = Late()\n"
        "run_command(lambda arguments: None)\n"
    )
    status, errors, _ = wait(start([sys.executable, "-c", code]))
    assert (status, errors) == (0, "")


@pytest.mark.slow
def test_ctrl_c_at_a_random_moment_is_one_line(tmp_path):
    """From the first import to the last line of a training."""
    whole = [sys.executable, "-m", "vit_jax.main", *TRAINING]
    process = start([*whole, f"--workdir={tmp_path}"])
    # Python itself, before it imports anything of ours, has a traceback of its own.
    delay = random.Random(time.time_ns()).uniform(0.3, 15)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    status, errors, _ = wait(process, 120)
    assert status in (130, 0), (delay, errors)  # 0: it had ended
    assert "Traceback" not in errors and "ignored in" not in errors, delay
    said = errors.count("interrupted (SIGINT)") + errors.count("saved step")
    assert said == (status == 130), (delay, errors)
