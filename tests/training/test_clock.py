import time

import pytest

from vit_jax.training.clock import TrainClock


def busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_laps_are_counted_and_what_resume_ends_is_not():
    clock = TrainClock(seconds=10.0, cpu_seconds=20.0)
    busy(0.05)
    lap = clock.lap()
    busy(0.05)
    clock.resume()
    assert lap >= 0.05 and clock.seconds == pytest.approx(10 + lap)
    assert 20.05 <= clock.cpu_seconds < 20.1


def test_waiting_costs_no_processor_time():
    clock = TrainClock()
    time.sleep(0.1)
    clock.lap()
    times = clock.times()
    assert times["seconds"] >= 0.1 and times["cpu_seconds"] < 0.05


def test_a_gpus_run_has_no_processor_time(monkeypatch):
    monkeypatch.setattr("vit_jax.models.backend.platform", lambda: "gpu")
    clock = TrainClock()
    busy(0.01)
    clock.lap()
    assert clock.cpu_seconds == 0 and set(clock.times()) == {"seconds"}
