"""Random orders that are the same on every machine and with every NumPy."""

import numpy as np
from jaxtyping import Int

# What an order is drawn for: the same seed gives unrelated orders for each.
PASS, HOLD_OUT, TEST_SPLIT = range(3)


def permutation(
    num: int, *, seed: int, purpose: int, number: int
) -> Int[np.ndarray, "num"]:
    """The integers 0 to num - 1 in a random order: a pure function of its arguments.

    NumPy may change what `Generator.permutation` returns for a seed (NEP 19), but not
    the raw output of a bit generator. So this sorts the raw 64-bit integers of
    Philox4x64-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"):
    `seed` and `number` are its key, `purpose` is the top of its counter.

    Args:
      num: how many.
      seed: at least 0; taken modulo 2**64.
      purpose: one of the constants of this module.
      number: which of the orders of that purpose, such as the number of the pass.
    """
    key = np.array([seed % 2**64, number], np.uint64)
    counter = np.array([0, 0, 0, purpose], np.uint64)
    draws = np.random.Philox(key=key, counter=counter).random_raw(num)
    return np.argsort(draws, kind="stable")
