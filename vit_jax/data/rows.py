"""Rows of a large array that are copied only where they are read."""

from typing import Any

import numpy as np
from jaxtyping import Int


class Rows:
    """Some rows of an array, in a given order, which are read on indexing.

    It supports what an array does on its first axis: `rows[indices]`, `rows[10:20]` and
    `rows[3]`. `np.asarray(rows)` reads and copies all rows. NumPy has no such view:
    indexing a memory map with an array reads and copies those rows at once.
    """

    def __init__(self, array: np.ndarray, indices: Int[np.ndarray, " n"]):
        self._array, self._indices = array, indices
        self.dtype = array.dtype
        self.shape = (len(indices), *array.shape[1:])
        self.size = int(np.prod(self.shape))
        self.nbytes = self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, key: Any) -> np.ndarray:
        first, *rest = key if isinstance(key, tuple) else (key,)
        if first is Ellipsis:
            raise TypeError("the first axis of Rows must be indexed by itself")
        return self._array[(self._indices[first], *rest)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("Rows cannot become an array without a copy")
        return np.asarray(self[:], dtype)

    def part(self, indices: Int[np.ndarray, " m"]) -> "Rows":
        """A part of these rows, without reading them."""
        return Rows(self._array, self._indices[indices])
