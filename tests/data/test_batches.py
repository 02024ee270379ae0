"""Batches are a pure function of the step and have every example once per epoch."""

import time

import numpy as np
import pytest

from vit_jax.data import batches
from vit_jax.data.batches import HOLD_OUT, PASS, permutation


@pytest.mark.parametrize(
    ("num_examples", "batch_size"), [(12, 4), (10, 4), (7, 20), (5, 5), (1, 3)]
)
def test_every_pass_holds_every_example_once(num_examples, batch_size):
    num_steps = 4 * num_examples
    steps = range(num_steps)
    indices = [batches.train_indices(num_examples, batch_size, 3, s) for s in steps]
    epochs = [batches.train_epochs(num_examples, batch_size, s) for s in steps]
    assert all(b.shape == (batch_size,) and b.dtype == np.int32 for b in indices)
    assert all(b.shape == (batch_size,) and b.dtype == np.int32 for b in epochs)
    indices, epochs = np.concatenate(indices), np.concatenate(epochs)
    assert epochs[-1] == 4 * batch_size - 1
    for epoch in range(4 * batch_size):
        seen = indices[epochs == epoch]
        np.testing.assert_array_equal(np.sort(seen), np.arange(num_examples))


def test_passes_differ():
    first, second = (batches.train_indices(100, 100, 0, step) for step in (0, 1))
    assert not np.array_equal(first, second)


def test_train_indices_do_not_depend_on_history():
    wanted = [batches.train_indices(50, 8, 1, step) for step in range(40)]
    for step in reversed(range(40)):
        batches.train_indices(50, 8, 2, step)  # Another seed in between.
        np.testing.assert_array_equal(
            batches.train_indices(50, 8, 1, step), wanted[step]
        )
    # Nor on what the caller does with the answer.
    batches.train_indices(50, 8, 1, 0)[:] = -1
    np.testing.assert_array_equal(batches.train_indices(50, 8, 1, 0), wanted[0])


def test_train_indices_far_into_training():
    step = 40_000_000  # 40 billion examples: beyond 32-bit positions.
    indices = batches.train_indices(50_000, 1000, 0, step)
    assert indices.min() >= 0 and indices.max() < 50_000
    assert (batches.train_epochs(50_000, 1000, step) == 800_000).all()


def test_train_indices_are_cheap_within_a_pass():
    batches.train_indices(50_000, 128, 0, 0)
    times = []
    for step in range(1, 200):
        start = time.perf_counter()
        batches.train_indices(50_000, 128, 0, step)
        times.append(time.perf_counter() - start)
    # Drawing the permutation anew would take milliseconds.
    assert np.median(times) < 1e-3


@pytest.mark.parametrize(("num_examples", "batch_size"), [(10, 4), (8, 4), (3, 10)])
def test_eval_batches_hold_every_example_once_in_order(num_examples, batch_size):
    seen = []
    for indices, mask in batches.eval_batches(num_examples, batch_size):
        assert indices.shape == mask.shape == (batch_size,)
        assert indices.dtype == np.int32 and mask.dtype == bool
        assert indices.min() >= 0 and indices.max() < num_examples
        seen.append(indices[mask])
    np.testing.assert_array_equal(np.concatenate(seen), np.arange(num_examples))
    assert len(seen) == -(-num_examples // batch_size)


def test_permutation_is_the_same_on_every_machine():
    # If this changes, every run with every seed sees its data in another order.
    order = permutation(10, seed=0, purpose=PASS, number=0)
    np.testing.assert_array_equal(order, [0, 2, 9, 1, 8, 5, 4, 3, 6, 7])


def test_permutations_differ_by_seed_purpose_and_number():
    orders = [
        permutation(1000, seed=seed, purpose=purpose, number=number)
        for seed in (0, 1, 2**64 - 1)
        for purpose in (PASS, HOLD_OUT)
        for number in (0, 1)
    ]
    assert len({order.tobytes() for order in orders}) == len(orders)
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(1000))


def test_permutations_are_uniform():
    firsts = [permutation(5, seed=s, purpose=PASS, number=0)[0] for s in range(2000)]
    counts = np.bincount(firsts, minlength=5)
    # Chi-square with 4 degrees of freedom is above 25 in 1 of 20,000 cases.
    assert ((counts - 400) ** 2 / 400).sum() < 25
