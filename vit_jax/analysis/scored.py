"""A split with a model's scores."""

import dataclasses
from typing import Any

import numpy as np

from vit_jax import models
from vit_jax.analysis import latency
from vit_jax.data import Dataset
from vit_jax.metrics import classification
from vit_jax.models import memory
from vit_jax.parallel import mesh as meshes
from vit_jax.runs.run import Run
from vit_jax.training import scoring

# Number of images on which model and people differ most.
NUM_LISTED = 16


@dataclasses.dataclass(frozen=True)
class Scored:
    """A split, and the logits [n, classes] that a model gave its images."""

    dataset: Dataset
    logits: np.ndarray

    @property
    def accuracy(self) -> float:
        """Fraction of correct predictions; NaN if a logit is not finite."""
        return classification.accuracy(self.logits, self.dataset.labels)


class Scorer:
    """A run's forward pass, compiled once, on the first device alone."""

    def __init__(self, run: Run, batch_size: int):
        """`batch_size` is config.eval_batch_size."""
        self._run, self._batch_size = run, batch_size
        self._mesh = meshes.make_mesh(1)
        self._eval_step = scoring.make_eval_step(run.config.data, run.model, self._mesh)

    def __call__(self, dataset: Dataset) -> Scored:
        """A dataset with the run's logits.

        Raises:
          UserError: a batch does not fit into memory.
        """
        batch_size = min(self._batch_size, len(dataset))
        memory.require_memory_to_score(
            self._run.model,
            dataset.images.shape[1:],
            self._run.input_shape,
            batch_size=batch_size,
            free=meshes.free_bytes(self._mesh.local_devices),
        )
        logits = scoring.score_split(
            self._run.variables,
            dataset.images,
            eval_step=self._eval_step,
            batch_size=batch_size,
            mesh=self._mesh,
        )
        return Scored(dataset, logits)

    def describe_cost(self, dataset: Dataset) -> dict[str, Any]:
        """num_params; flops of one forward pass of one image, where a
        multiply-accumulate is two operations (`models.count_macs`); and the "latency"
        on images of `dataset`, see `latency.describe`."""
        run = self._run
        macs = models.count_macs(run.model, run.input_shape)
        return {
            "num_params": models.count_params(run.variables["params"]),
            "flops": 2 * macs,
            "latency": latency.describe(run, self._eval_step, dataset.images),
        }
