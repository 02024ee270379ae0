"""Permutations that are the same on every machine."""

import numpy as np

from vit_jax.data.permutation import HOLD_OUT, PASS, permutation


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
