"""Random permutations that are the same with every machine and version of NumPy."""

import numpy as np
from jaxtyping import Int

# Purposes of a permutation; they are independent for the same seed.
PASS, HOLD_OUT, TEST_SPLIT = range(3)


def permutation(
    num: int, *, seed: int, purpose: int, number: int
) -> Int[np.ndarray, " num"]:
    """The integers 0 to num - 1 in a random order: a pure function of its arguments.

    NumPy may change what `Generator.permutation` returns for a seed (NEP 19), but not
    the raw output of a bit generator. This function sorts the raw 64-bit integers of
    Philox4x64-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"):
    `seed` and `number` are its key, `purpose` is the top of its counter.

    Args:
      num: the number of integers.
      seed: at least 0; it is taken modulo 2**64.
      purpose: one of the constants of this module.
      number: which permutation of that purpose, such as the number of the epoch.
    """
    key = np.array([seed % 2**64, number], np.uint64)
    counter = np.array([0, 0, 0, purpose], np.uint64)
    draws = np.random.Philox(key=key, counter=counter).random_raw(num)
    return np.argsort(draws, kind="stable")
