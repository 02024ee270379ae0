"""A part of a large array that is never copied as a whole."""

from typing import Any

import numpy as np
from jaxtyping import Int


class Rows:
    """Some rows of an array, in a given order, read when they are asked for.

    Takes the place of an array that only has its rows looked up: `rows[indices]`,
    `rows[10:20]`, `rows[3]`. `np.asarray(rows)` reads and copies all. NumPy itself has
    no such view: indexing a memory map with an array reads and copies those rows.
    """

    def __init__(self, array: np.ndarray, indices: Int[np.ndarray, "n"]):
        self._array, self._indices = array, indices
        self.dtype = array.dtype
        self.shape = (len(indices), *array.shape[1:])
        self.ndim = array.ndim
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
            raise ValueError("Rows are no array until they are copied")
        return np.asarray(self[:], dtype)

    def part(self, indices: Int[np.ndarray, "m"]) -> "Rows":
        """Rows of these rows."""
        return Rows(self._array, self._indices[indices])
