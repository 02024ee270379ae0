"""Rows of an array that are read on indexing."""

import numpy as np
import pytest

from vit_jax.data import Rows


def test_rows_are_looked_up_as_in_an_array():
    array = np.arange(60, dtype=np.uint8).reshape(10, 2, 3)
    indices = np.array([7, 2, 9, 4])
    rows, copied = Rows(array, indices), array[indices]
    assert (len(rows), rows.shape) == (4, (4, 2, 3))
    assert (rows.size, rows.nbytes, rows.dtype) == (24, 24, np.uint8)
    two = np.array([3, 0])
    for key in (1, -1, slice(1, 3), two, np.array([[0, 1], [3, 3]]),
                (slice(0, 2), slice(None), slice(1, 2)), (two, slice(1))):  # fmt: skip
        np.testing.assert_array_equal(rows[key], copied[key])
    np.testing.assert_array_equal(rows.part(two)[:], copied[two])
    with pytest.raises(TypeError, match="first axis"):
        rows[..., 0]
    with pytest.raises(IndexError):
        rows[4]
