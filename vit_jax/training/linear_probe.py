"""A linear probe: the head alone, solved on the features of a frozen model."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from vit_jax.errors import UserError
from vit_jax.metrics import classification
from vit_jax.parallel import processes
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.run import model_features, normalize
from vit_jax.training import resolve, scoring
from vit_jax.training.experiment import Experiment
from vit_jax.training.history import History
from vit_jax.training.logs import TrainClock
from vit_jax.training.progress import say, waiting
from vit_jax.training.start import with_variables
from vit_jax.training.train_state import TrainState

# Inverse strengths of the L2 penalty that are tried on the validation split.
_STRENGTHS = tuple(10.0**n for n in range(-4, 3))
# Without a validation split there is nothing to choose by.
_DEFAULT_STRENGTH = 0.1
_MAX_ITERATIONS = 500


def train_probe(
    experiment: Experiment,
    folder: RunFolder,
    checkpoints: Checkpoints,
    state: TrainState,
    history: History,
) -> TrainState:
    """The state with a solved head, saved as the checkpoint of step 0.

    A head that `history` says is solved stays as it is.
    """
    if history.train_seconds:
        return state
    clock = TrainClock()
    state, history.linear_probe = _solve_head(experiment, state)
    clock.lap()
    history.train_seconds, history.cpu_seconds = clock.seconds, clock.cpu_seconds
    scores = {"accuracy": None, "loss": None}
    if split := experiment.evaluated_split:
        scores = experiment.evaluate(state.variables)
        history.add_evaluation(0, scores)
        # A start that was killed here may have left the same line.
        folder.forget_metrics_after(-1)
        folder.append_metrics(
            {"step": 0, "epoch": 0.0, "split": split, **scores, **clock.times()}
        )
        say(
            f"{split} accuracy {scores['accuracy']:.2%} with a penalty of "
            f"{1 / history.linear_probe['strength']:g}"
        )
    metadata = dataclasses.asdict(history)
    checkpoints.save(0, state, metadata=metadata, **scores)
    checkpoints.wait()
    return state


def _solve_head(
    experiment: Experiment, state: TrainState
) -> tuple[TrainState, dict[str, Any]]:
    """The state with a head that is fitted to the training images as they are.

    The head is a multinomial logistic regression on the standardised features, which
    L-BFGS solves (scikit-learn) until it converges or has done 500 iterations. Classes
    weigh as `config.optim.class_weights` says. Its penalty is the one with the lowest
    validation loss, in which all images count alike. The other parameters do not
    change.

    It also returns how the head was found; see `fit_logistic`.
    """
    splits = {}
    for name in filter(None, ("train", experiment.evaluated_split)):
        with waiting(f"computing the features of {name}"):
            features = _features(experiment, state, name)
        splits[name] = features, experiment.splits[name].labels
    train = experiment.splits["train"]
    weights = resolve.class_weights(experiment.config, train)

    def fit() -> list[Any]:
        kernel, bias, how = fit_logistic(splits, weights)
        return [kernel.tolist(), bias.tolist(), how]

    # The hosts' CPUs may round differently, and the parameters are the same on all.
    kernel, bias, how = processes.broadcast_from_primary(fit)
    head = {"kernel": np.float32(kernel), "bias": np.float32(bias)}
    params = state.params | {"head": head}
    variables = {"params": params, "batch_stats": state.batch_stats}
    return with_variables(state, variables), how


def fit_logistic(
    splits: dict[str, tuple[Float[np.ndarray, "n width"], Int[np.ndarray, " n"]]],
    class_weights: Sequence[float] | None = None,
) -> tuple[
    Float[np.ndarray, "width classes"], Float[np.ndarray, " classes"], dict[str, Any]
]:
    """Kernel and bias of a logistic regression on the "train" features.

    Args:
      splits: features and labels of "train" and perhaps of one more, which chooses
        the penalty. "train" has images of all classes, which are at least two.
      class_weights: in the loss of "train"; None: all images count alike.

    Returns:
      Also how they were found: the inverse "strength" of the penalty, the "iterations"
      with it, and whether these "converged".

    Raises:
      UserError: a feature is not finite.
    """
    features, labels = splits["train"]
    for name, (own, _) in splits.items():
        if not np.isfinite(own).all():
            raise UserError(
                f"config.linear_probe is True, but features of {name} images are not "
                "finite, so the weights are spoilt; give others in "
                "config.pretrained.path."
            )
    weights = None if class_weights is None else np.float64(class_weights)[labels]
    center, scale = features.mean(0), features.std(0) + 1e-6
    standardised = (features - center) / scale
    judge = [*splits][-1]
    strengths = (_DEFAULT_STRENGTH,) if judge == "train" else _STRENGTHS
    judges, judge_labels = splits[judge]
    found = []
    for strength in strengths:
        with waiting(f"solving the head with a penalty of {1 / strength:g}"):
            solved, offset, how = _solve(standardised, labels, weights, strength)
        kernel = solved / scale[:, None]
        bias = offset - center @ kernel
        logits = np.float32(judges @ kernel + bias)
        loss = classification.cross_entropy(logits, judge_labels)
        ended = "converged" if how["converged"] else "stopped"
        say(f"loss {loss:.4f} on {judge}, {ended} after {how['iterations']} iterations")
        found.append((loss, kernel, bias, how))
    _, kernel, bias, how = min(found, key=lambda solution: solution[0])
    return kernel, bias, how


def _solve(
    features: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    strength: float,
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=strength, max_iter=_MAX_ITERATIONS)
    with warnings.catch_warnings(record=True) as caught:
        # At the limit of iterations scikit-learn warns; "converged" is then false.
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(features, labels, sample_weight=weights)
    failed = any(issubclass(x.category, ConvergenceWarning) for x in caught)
    how = {
        "strength": strength,
        "iterations": int(model.n_iter_.max()),
        "converged": not failed,
    }
    kernel, bias = model.coef_.T, model.intercept_
    if len(model.classes_) == 2:  # The logits are of the second class alone.
        kernel, bias = (np.concatenate([-x, x], -1) / 2 for x in (kernel, bias))
    return kernel, bias, how


def _features(
    experiment: Experiment, state: TrainState, split: str
) -> Float[np.ndarray, "n width"]:
    """The head's input for each image of a split, without augmentation or dropout."""

    def step(variables, images):
        inputs = normalize(images, experiment.config.data)
        return model_features(experiment.model, variables, inputs)

    eval_step = scoring.jit_on(experiment.mesh, step)
    return experiment.score(state.variables, split, eval_step).astype(np.float64)
