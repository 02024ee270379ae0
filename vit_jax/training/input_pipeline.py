"""The input pipeline: batches of the training split, copied to the devices."""

import collections
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from ml_collections import ConfigDict

from vit_jax.data import Dataset, batches
from vit_jax.models import memory
from vit_jax.parallel import mesh as meshes

# Number of dispatches whose batches the host gathers in advance.
_AHEAD = 2
# Largest number of dispatches whose batches are on the device at once: `_AHEAD`, the
# one that the device computes, and the two that wait behind it (see `TrainLog.add`).
NUM_WAITING = _AHEAD + 3


class InputPipeline:
    """Gives each dispatch its batches, either as indices or as images.

    A split that fits into device memory is copied to every device at the start, and a
    step takes its images from there by their indices. Any other split stays on the
    host, in memory or in a memory-mapped file, and its batches are copied while the
    device computes. The order of the images and the result are the same.

    Attributes:
      split: (images, labels) on the devices, or None where the split is on the host.
        The constructor's `put` copies them.
    """

    def __init__(
        self,
        train: Dataset,
        config: ConfigDict,
        mesh: Mesh,
        put: Callable[[Any, NamedSharding], Any] = meshes.put,
    ):
        self._train, self._config, self._mesh = train, config, mesh
        on_device = {
            "auto": meshes.fits(train.images.nbytes, mesh),
            "device": True,
            "host": False,
        }[config.data.placement]
        self.split = None
        if on_device:
            arrays = (np.asarray(train.images), train.labels)
            self.split = put(arrays, meshes.replicated(mesh))

    def batches_at(
        self, first_step: int, num_steps: int, size: int
    ) -> dict[str, np.ndarray]:
        """Host arrays of `num_steps` batches for a program of `size` steps.

        Their first axis is the step: "indices" and "epochs" int32 [size, b]; without a
        split on the devices, "images" uint8 [size, b, h, w, c] and "labels" int32
        [size, b], too. The last batch is repeated up to `size`; "is_step" bool [size]
        says which ones count.
        """
        steps = [first_step + min(i, num_steps - 1) for i in range(size)]
        num_examples, config = len(self._train), self._config
        indices = [
            batches.train_indices(num_examples, config.batch_size, config.seed, step)
            for step in steps
        ]
        epochs = [
            batches.train_epochs(num_examples, config.batch_size, step)
            for step in steps
        ]
        found = {
            "indices": np.stack(indices),
            "epochs": np.stack(epochs),
            "is_step": np.arange(size) < num_steps,
        }
        if self.split is None:
            found["images"] = self._train.images[found["indices"]]
            found["labels"] = self._train.labels[found["indices"]]
        return found

    def put(self, host_batches: dict[str, np.ndarray]) -> dict[str, jax.Array]:
        """Copies what `batches_at` gives to the devices."""
        return {
            name: meshes.put(array, self._sharding(array.shape))
            for name, array in host_batches.items()
        }

    def _sharding(self, shape: tuple[int, ...]) -> NamedSharding:
        """Every device has its part of each batch, and all of "is_step"."""
        split = meshes.split_batches if len(shape) > 1 else meshes.replicated
        return split(self._mesh)

    def shapes(self, size: int) -> dict[str, jax.ShapeDtypeStruct]:
        """Shapes and dtypes of the batches that `stream` yields."""
        batch_shape = (size, self._config.batch_size)
        found = {
            "indices": (batch_shape, np.int32),
            "epochs": (batch_shape, np.int32),
            "is_step": ((size,), np.bool_),
        }
        if self.split is None:
            images, labels = self._train.images, self._train.labels
            found["images"] = ((*batch_shape, *images.shape[1:]), images.dtype)
            found["labels"] = (batch_shape, labels.dtype)
        return {
            name: jax.ShapeDtypeStruct(shape, dtype, sharding=self._sharding(shape))
            for name, (shape, dtype) in found.items()
        }

    def num_bytes(self, size: int) -> int:
        """Size of the batches of a program of `size` steps, over all devices."""
        return memory.num_bytes(self.shapes(size))

    def stream(
        self, dispatches: Iterable[tuple[int, int]], size: int
    ) -> Iterator[tuple[int, dict[str, jax.Array]]]:
        """Yields (number of steps, batches on the devices) for each dispatch, which is
        (first step, number of steps), of a program of `size` steps. A thread gathers
        and copies the batches in advance."""

        def load(dispatch):
            return dispatch[1], self.put(self.batches_at(*dispatch, size))

        return prefetch(load, dispatches, _AHEAD)


def prefetch(
    function: Callable[[Any], Any], items: Iterable[Any], depth: int
) -> Iterator[Any]:
    """Yields function(item) of each item in order, computed up to `depth` in advance.

    A thread computes the results. An exception in `function` is raised where its result
    would have been. Flax's `prefetch_to_device` serves pmap only, and Grain saves an
    iterator's state, of which this order of the images has none.
    """
    with concurrent.futures.ThreadPoolExecutor(1, "prefetch") as pool:
        ahead: collections.deque[concurrent.futures.Future] = collections.deque()
        try:
            for item in items:
                ahead.append(pool.submit(function, item))
                if len(ahead) > depth:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
