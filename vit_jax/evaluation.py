"""A split with a model's scores, and the numbers that only a report has."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import log_softmax

from vit_jax import cost, scoring
from vit_jax import mesh as meshes
from vit_jax.data import Dataset
from vit_jax.metrics import calibration, classification, human
from vit_jax.metrics.epochs import EpochMeans, epoch_means
from vit_jax.runs import Run

# Of the images on which model and people differ.
NUM_LISTED = 16


@dataclasses.dataclass(frozen=True)
class Scored:
    """A split, and the logits [n, classes] that a model gave its images."""

    dataset: Dataset
    logits: np.ndarray

    @property
    def accuracy(self) -> float:
        """Share of the images that are right; NaN where a logit is not finite."""
        return classification.accuracy(self.logits, self.dataset.labels)


class Scorer:
    """A run's forward pass, compiled once, on the first device alone."""

    def __init__(self, run: Run, batch_size: int):
        """`batch_size` is config.eval_batch_size."""
        self._run, self._batch_size = run, batch_size
        self._mesh = meshes.make_mesh(1)
        self._eval_step = scoring.make_eval_step(run.model, run.normalize, self._mesh)

    def __call__(self, dataset: Dataset) -> Scored:
        """A dataset with the run's logits."""
        logits = scoring.score_split(
            self._run.variables,
            dataset.images,
            eval_step=self._eval_step,
            batch_size=min(self._batch_size, len(dataset)),
            mesh=self._mesh,
        )
        return Scored(dataset, logits)

    def describe_cost(self, dataset: Dataset) -> dict[str, Any]:
        """num_params and flops, see `cost.describe_cost`, and the "latency" on images
        of `dataset`, see `cost.describe_latency`."""
        latency = cost.describe_latency(self._run, self._eval_step, dataset.images)
        return {**cost.describe_cost(self._run), "latency": latency}


def train_epochs(records: Sequence[Mapping[str, Any]], key: str) -> EpochMeans:
    """Means by epoch of what the training steps logged as `key` in metrics.jsonl.

    The batches are augmented, dropout is on, and the parameters change meanwhile. NaN
    where a value was not finite, which the records hold as None.
    """
    logged = [record for record in records if record["split"] == "train"]
    columns = ([r[k] for r in logged] for k in ("step", "epoch", "seconds", key))
    return epoch_means(*(np.array(column, float) for column in columns))


def logged_train_accuracy(records: Sequence[Mapping[str, Any]]) -> float:
    """The last epoch's value of `train_epochs`; NaN if none was logged."""
    values = train_epochs(records, "accuracy").values
    return float(values[-1]) if len(values) else math.nan


def compare_splits(
    scored: Scored,
    val: Scored | None,
    train: Scored,
    records: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Scores of a split that need the other splits or the log as well, JSON-ready.

    Args:
      scored: the split.
      val, train: the splits to fit the temperature on, and to compare with.
      records: of metrics.jsonl.

    Returns:
      calibration: {"before", "after"} temperature scaling fitted on `val` (None: there
        is none, and the temperature stays 1), and "fitted_on_itself": whether that is
        this very split, which flatters "after";
      train_accuracy: without augmentation;
      generalization_gap: train_accuracy minus this split's;
      train_accuracy_logged: of the run's last epoch, see `logged_train_accuracy`;
      generalization_gap_logged: train_accuracy_logged minus this split's accuracy.
    """
    temperature = 1.0
    if val is not None:
        temperature = calibration.fit_temperature(val.logits, val.dataset.labels)
    labels = scored.dataset.labels
    logged = logged_train_accuracy(records)
    accuracies = {
        "train_accuracy": train.accuracy,
        "generalization_gap": train.accuracy - scored.accuracy,
        "train_accuracy_logged": logged,
        "generalization_gap_logged": logged - scored.accuracy,
    }
    after = calibration.summarize(scored.logits, labels, temperature=temperature)
    return {
        "calibration": {
            "before": calibration.summarize(scored.logits, labels),
            "after": after,
            "fitted_on_itself": val is not None and val.dataset is scored.dataset,
        },
        **{key: None if math.isnan(x) else x for key, x in accuracies.items()},
    }


def compare_with_people(scored: Scored, counts: np.ndarray) -> dict[str, Any]:
    """`human.summarize`, and the images on which model and people differ most.

    Returns:
      Its numbers and "largest_differences", the largest first: index in the split,
      label, the model's and people's first choice, and the total variation distance of
      their two distributions.
    """
    labels, names = scored.dataset.labels, scored.dataset.class_names
    indices, distances = human.largest_differences(scored.logits, counts, NUM_LISTED)
    differences = [
        {
            "index": int(index),
            "label": names[labels[index]],
            "model": names[scored.logits[index].argmax()],
            "people": names[counts[index].argmax()],
            "distance": float(distance),
        }
        for index, distance in zip(indices, distances, strict=True)
    ]
    summary = human.summarize(scored.logits, labels, counts)
    return {**summary, "largest_differences": differences}


def mirror(dataset: Dataset) -> Dataset:
    """Every image with left and right exchanged."""
    return dataclasses.replace(
        dataset, images=np.ascontiguousarray(dataset.images[:, :, ::-1])
    )


def describe_mean(first: Scored, second: Scored) -> dict[str, float | None]:
    """accuracy and loss of the mean of two probabilities, such as an image's and its
    mirror image's.

    Two forward passes, so not to be compared with the score of one.
    """
    both = np.stack([first.logits, second.logits]).astype(np.float64)
    # Log-probabilities are logits, too.
    mean = Scored(first.dataset, np.logaddexp(*log_softmax(both, axis=-1)))
    loss = classification.cross_entropy(mean.logits, mean.dataset.labels)
    scores = {"accuracy": mean.accuracy, "loss": loss}
    return {key: None if math.isnan(x) else x for key, x in scores.items()}


def to_text(scores: Mapping[str, Any]) -> str:
    """Scores of a split, as results.json holds them, in lines for a terminal."""

    def percent(value: float | None) -> str:
        return "not known" if value is None else f"{value:.2%}"

    loss = "not finite" if scores["loss"] is None else f"{scores['loss']:.4f}"
    first = f"accuracy {percent(scores['accuracy'])}, loss {loss}"
    if "top_5_accuracy" in scores:
        first += f", top-5 {percent(scores['top_5_accuracy'])}"
    width = max(map(len, scores["per_class"]))
    lines = [
        f"  {name:<{width}}  {percent(one['accuracy']):>9} of {one['support']:,}"
        for name, one in scores["per_class"].items()
    ]
    worst, least = scores["worst_class"], scores["worst_class_by_accuracy"]
    lines.append(
        f"worst class: {least['name']} by accuracy ({percent(least['accuracy'])}), "
        f"{worst['name']} by F1 ({worst['f1']:.4f})"
    )
    if "mirrored" in scores:
        accuracy = percent(scores["mirrored"]["accuracy"])
        lines.append(f"averaged with the mirror image: accuracy {accuracy}")
    return "\n".join((f"{scores['num_examples']:,} images: {first}", *lines))
