"""Decisions that two real processes take together; requests without such processes."""

import math
import time

import pytest

from tests.parallel.running import outputs, run_code, running
from vit_jax.parallel import distributed, processes
from vit_jax.parallel.processes import Requests

COMMON_DECISIONS = """
import math, sys
from vit_jax.parallel import processes, distributed
from vit_jax.parallel.processes import Requests
from vit_jax.parallel.commands import run_command
from vit_jax.errors import UserError
from vit_jax.parallel.mesh import make_mesh

def main(arguments):
    me = int(arguments[1])
    distributed.start(arguments[0], 2, me, timeout_seconds=100)
    assert processes.broadcast_from_primary(lambda: [me, None, 0.1]) == [0, None, 0.1]
    assert processes.start_max(10 * me + 5)() == 15
    # Only the clock of the first process counts.
    requests = Requests([0, math.inf][me])
    calls = [(0, True), (9, False), (15 * me, True), (0, False), (0, False)]
    granted = [requests.granted(number, exchange=now) for number, now in calls]
    assert granted == [(0, False), (0, False), (0, True), (0, False), (15, False)]
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
    with running(2, "-c", COMMON_DECISIONS, "ADDRESS", "ID") as both:
        (_, first), (_, second) = texts = outputs(both)
    assert [process.returncode for process in both] == [1, 1], texts
    assert "error: Process 1 could not start; see its own message." in first
    assert "error: Process 1 differs from process 0 (seed: 0 there, 1 here)" in second
    assert "Traceback" not in first + second


ALONE = """
import jax
from vit_jax.parallel import processes
from vit_jax.training.progress import say

assert processes.is_primary()
say("alone")
# JAX refuses this once its devices are in use.
jax.config.update("jax_num_cpu_devices", 3)
assert jax.device_count() == 3 and processes.is_primary()
"""


@pytest.mark.slow
def test_a_process_that_only_launches_others_leaves_them_the_devices():
    result = run_code(ALONE)
    assert (result.returncode, result.stdout) == (0, "alone\n"), result.stderr


@pytest.fixture
def clock(monkeypatch):
    """A list of one number, which is the time in seconds."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_process_that_is_alone_is_granted_its_own_at_once(clock):
    requests = Requests(10)
    assert requests.granted(0, exchange=True) == (0, False)
    clock[0] += 10
    assert requests.granted(0, exchange=False) == (0, True)
    assert requests.granted(15, exchange=False) == (15, True)
    requests.saved()
    assert requests.granted(0, exchange=True) == (0, False)
    clock[0] += 1e9
    assert Requests(math.inf).granted(2, exchange=False) == (2, False)


def test_the_first_of_several_requests_each_save_once(clock, monkeypatch):
    monkeypatch.setattr(distributed, "is_started", lambda: True)
    # The others request nothing.
    monkeypatch.setattr(processes, "start_max", lambda value: lambda: value)
    requests, saved = Requests(10), []
    for second in range(1, 41):
        clock[0] += 1
        if requests.granted(0, exchange=True)[1]:
            saved.append(second)
            requests.saved()
    assert saved == [12, 24, 36]


def test_a_signal_is_not_hidden_by_a_request_to_save(clock, monkeypatch):
    monkeypatch.setattr(distributed, "is_started", lambda: True)
    others = 2 * 15
    monkeypatch.setattr(
        processes, "start_max", lambda value: lambda: max(value, others)
    )
    requests = Requests(10)
    clock[0] += 10
    granted = [requests.granted(0, exchange=step == 0)[0] for step in range(3)]
    assert granted == [0, 0, 15]
