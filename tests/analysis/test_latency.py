"""Latency: its median and quartiles, its load, and when no figure is stated."""

import subprocess
import sys
import time

import numpy as np
import pytest

from vit_jax import data
from vit_jax.analysis import latency
from vit_jax.analysis.scored import Scorer
from vit_jax.runs.load import load_run


def sleeper(milliseconds):
    """A function that takes each of these times in turn, after three calls."""
    times = iter([0, 0, 0, *milliseconds])
    return lambda batch: time.sleep(next(times) / 1000)


def test_it_warms_up_and_ends():
    calls = []
    timed = latency.measure(calls.append, np.zeros(4), max_repeats=17)
    assert timed["num_repeats"] == 17 and len(calls) == 20
    slow = latency.measure(calls.append, np.zeros(4), max_seconds=0.0)
    assert slow["num_repeats"] == 10


def test_median_and_quartiles_are_of_one_image():
    timed = latency.measure(sleeper([40] * 10), np.zeros(4), max_repeats=10)
    assert timed["milliseconds_per_image"] == pytest.approx(10, rel=0.3)
    assert timed["lower_quartile"] <= timed["milliseconds_per_image"]
    assert timed["milliseconds_per_image"] <= timed["upper_quartile"]


def test_a_figure_that_spreads_too_far_is_not_stated():
    """Such as 6 to 17 times apart, when other programs come and go."""
    timed = latency.measure(sleeper([2, 30] * 5), np.zeros(1), max_repeats=10)
    assert timed["milliseconds_per_image"] is None
    assert timed["upper_quartile"] > 5 * timed["lower_quartile"]
    quiet = {**timed, "milliseconds_per_image": 2.0}
    about = {"device": "cpu", "dtype": "float32", "num_cores": 2, "other_cores": 1.25}
    measured = {"batch_1": timed, "batch_128": quiet, **about}
    first, second = latency.to_rows(measured)
    assert first[:2] == ("one image at a time", "not stated")
    assert "quiet machine" in first[2]
    assert second[:2] == ("in batches of 128", "2 ms per image")
    assert second[2].startswith("median of 10; quartiles")
    load = latency.load_text(measured)
    assert load.endswith("other programs used 1.2 of 2 CPU cores meanwhile")


@pytest.mark.slow
def test_the_load_of_other_programs_is_measured(tiny_run):
    run = load_run(tiny_run[0])
    images = data.load(run.config.data)["test"]
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        found = Scorer(run, 100).describe_cost(images)["latency"]
    finally:
        busy.kill()
        busy.wait()
    assert found["other_cores"] > 0.2
    assert found["num_cores"] >= 1 and found["device"] == "cpu"
