"""The examples of each step, by pure functions, so that no iterator is saved.

The random orders are the same with every machine and version of NumPy.
"""

import functools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int, Int32

# Purposes of a permutation; they are independent for the same seed.
PASS, HOLD_OUT, TEST_SPLIT, SHOWN = range(4)


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


def draw_shown(num_examples: int, num_shown: int) -> Int[np.ndarray, " shown"]:
    """Indices of examples to show, drawn at random and always the same ones; all, in a
    random order, where there are no more than `num_shown`."""
    return permutation(num_examples, seed=0, purpose=SHOWN, number=0)[:num_shown]


@functools.lru_cache(maxsize=64)  # a sweep has an order for each of its seeds
def _order(
    num_examples: int, seed: int, epoch: int
) -> Int32[np.ndarray, " num_examples"]:
    order = permutation(num_examples, seed=seed, purpose=PASS, number=epoch)
    order = order.astype(np.int32)  # The cache then takes half the memory.
    order.flags.writeable = False  # The cache hands the same array to every caller.
    return order


def _positions(batch_size: int, step: int) -> Int[np.ndarray, " batch_size"]:
    return np.arange(step * batch_size, (step + 1) * batch_size)


def train_epochs(
    num_examples: int, batch_size: int, step: int
) -> Int32[np.ndarray, " batch_size"]:
    """The epoch, from 0, that each example of batch `step` belongs to."""
    return (_positions(batch_size, step) // num_examples).astype(np.int32)


def train_indices(
    num_examples: int, batch_size: int, seed: int, step: int
) -> Int32[np.ndarray, " batch_size"]:
    """Indices, 0 to num_examples - 1, of the examples in batch `step` (from 0).

    The order of all epochs is one endless sequence, with a new permutation for each
    epoch, and batch `step` begins at its position step * batch_size. A batch may
    therefore begin in one epoch and end in the next: every epoch has every example
    exactly once, and no example is dropped if the batch size does not divide their
    number.
    """
    epochs, places = np.divmod(_positions(batch_size, step), num_examples)
    pieces = [
        _order(num_examples, seed, epoch)[places[epochs == epoch]]
        for epoch in range(int(epochs[0]), int(epochs[-1]) + 1)
    ]
    return np.concatenate(pieces)


def eval_batches(
    num_examples: int, batch_size: int
) -> Iterator[tuple[Int32[np.ndarray, " batch_size"], Bool[np.ndarray, " batch_size"]]]:
    """Yields (indices, mask) of batches that have every example once, in order.

    All batches have the same size, so one compiled step serves them all. The last one
    is padded with example 0; `mask` is False for the padding.
    """
    for start in range(0, num_examples, batch_size):
        indices = np.arange(start, start + batch_size, dtype=np.int32)
        mask = indices < num_examples
        yield np.where(mask, indices, np.int32(0)), mask
