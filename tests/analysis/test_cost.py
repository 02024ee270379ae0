"""The cost of a forward pass."""

import numpy as np

from vit_jax.analysis import cost


def test_latency_warms_up_and_ends():
    calls = []
    timed = cost.measure_latency(calls.append, np.zeros(4), max_repeats=7)
    assert timed["num_repeats"] == 7 and len(calls) == 10
    slow = cost.measure_latency(calls.append, np.zeros(4), max_seconds=0.0)
    assert slow["num_repeats"] == 5 and slow["milliseconds_per_image"] >= 0
