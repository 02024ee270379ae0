"""When requests to stop and to save are granted, without real processes."""

import math
import time

import pytest

from vit_jax.parallel import distributed, processes
from vit_jax.parallel.requests import Requests


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
