"""Signals that are recorded, and a second one that ends the process."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from vit_jax.parallel.signals import Interrupted, StopSignals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_recorded_and_handlers_come_back(number):
    before = signal.getsignal(number)
    with StopSignals() as signals:
        assert signals.agreed(ask=True) is None
        signal.raise_signal(number)
        # A single process asks nobody else.
        assert signals.agreed(ask=False) == signals.received == number
    assert signal.getsignal(number) is before


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
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert result.returncode == 128 + signal.SIGTERM, result.stderr
    assert result.stdout == "goes on\n"


def test_an_interruption_says_how_to_go_on():
    error = Interrupted(7, signal.SIGTERM)
    assert (error.step, error.exit_status) == (7, 143)
    assert str(error) == "saved step 7; rerun the same command to resume (SIGTERM)"


def test_a_signal_is_answered_at_once(capfd):
    with StopSignals() as signals:
        assert signals.received is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received == signal.SIGTERM
    assert "stopping after this step" in capfd.readouterr().err
