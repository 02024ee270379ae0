"""Which examples a step sees: a pure function, so that no iterator need be saved."""

import functools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int, Int32

from vit_jax.data.permutation import PASS, permutation


@functools.lru_cache(maxsize=4)
def _order(num_examples: int, seed: int, epoch: int) -> Int[np.ndarray, "num_examples"]:
    order = permutation(num_examples, seed=seed, purpose=PASS, number=epoch)
    order.flags.writeable = False  # The cache hands the same array to every caller.
    return order


def _positions(batch_size: int, step: int) -> Int[np.ndarray, "batch_size"]:
    return np.arange(step * batch_size, (step + 1) * batch_size)


def train_epochs(
    num_examples: int, batch_size: int, step: int
) -> Int32[np.ndarray, "batch_size"]:
    """The pass over the data, from 0, that each example of batch `step` belongs to."""
    return (_positions(batch_size, step) // num_examples).astype(np.int32)


def train_indices(
    num_examples: int, batch_size: int, seed: int, step: int
) -> Int32[np.ndarray, "batch_size"]:
    """Indices, 0 to num_examples - 1, of the examples in batch `step` (from 0).

    One permutation follows another without end, a fresh one for each pass, and batch
    `step` is the slice from step * batch_size on. A batch may therefore begin in one
    pass and end in the next: every pass holds every example exactly once, and nothing
    is dropped where the batch size does not divide the number of examples.

    Drawing a permutation (4 ms for 50,000) happens once per pass; the last few are
    remembered, so that all other steps take some 20 microseconds.
    """
    epochs, places = np.divmod(_positions(batch_size, step), num_examples)
    pieces = [
        _order(num_examples, seed, epoch)[places[epochs == epoch]]
        for epoch in range(int(epochs[0]), int(epochs[-1]) + 1)
    ]
    return np.concatenate(pieces).astype(np.int32)


def eval_batches(
    num_examples: int, batch_size: int
) -> Iterator[tuple[Int32[np.ndarray, "batch_size"], Bool[np.ndarray, "batch_size"]]]:
    """Yields (indices, mask) of batches that hold every example once, in order.

    All batches have the same size, so that one compiled step serves them all. The last
    one is filled up with example 0; `mask` is False there, and those must not count.
    """
    for start in range(0, num_examples, batch_size):
        indices = np.arange(start, start + batch_size, dtype=np.int32)
        mask = indices < num_examples
        yield np.where(mask, indices, np.int32(0)), mask
