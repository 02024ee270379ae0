"""Exact evaluation of a split; the command that adds it to a run's results.

python -m vit_jax.evaluate --workdir=RUN [--checkpoint=best] [--split=test]
"""

import argparse
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from flax import linen as nn
from jax.sharding import Mesh
from jaxtyping import Float, UInt8

from vit_jax import data, runs, steps
from vit_jax import mesh as meshes
from vit_jax.commands import run_command
from vit_jax.config import apply_overrides
from vit_jax.data import batches
from vit_jax.errors import UserError, did_you_mean
from vit_jax.folder import RunFolder
from vit_jax.metrics import classification


def make_eval_step(
    model: nn.Module, normalize: Callable, mesh: Mesh
) -> Callable[[Any, Any], Any]:
    """`steps.eval_step` compiled for a mesh: images in parts, logits everywhere."""
    step = functools.partial(steps.eval_step, model=model, normalize=normalize)
    whole, parts = meshes.replicated(mesh), meshes.split_batch(mesh)
    return jax.jit(step, in_shardings=(whole, parts), out_shardings=whole)


def score_split(
    variables: Any,
    images: UInt8[np.ndarray, "n height width channels"],
    *,
    eval_step: Callable,
    batch_size: int,
    mesh: Mesh,
) -> Float[np.ndarray, "n classes"]:
    """float32 logits of every image, in order.

    The last batch is filled up with copies of the first image, whose logits are thrown
    away: each image counts exactly once, whatever the batch size.
    """
    logits = []
    for indices, mask in batches.eval_batches(len(images), batch_size):
        batch = meshes.put(images[indices], meshes.split_batch(mesh))
        logits.append((eval_step(variables, batch), mask))
    scores = np.concatenate([jax.device_get(x)[mask] for x, mask in logits])
    if len(scores) != len(images):
        raise AssertionError(f"scored {len(scores)} of {len(images)} images")
    return scores


def describe_scores(
    logits: Float[np.ndarray, "n classes"], dataset: data.Dataset
) -> dict[str, Any]:
    """JSON-ready scores: accuracy, loss, num_examples, per_class and more."""
    scores = classification.summarize(logits, dataset.labels, dataset.class_names)
    return {
        "accuracy": scores.pop("accuracy"),
        "loss": scores.pop("cross_entropy"),
        **scores,
    }


def _add_to_results(
    folder: RunFolder, step: int, split: str, scores: dict[str, Any]
) -> None:
    """The selected checkpoint's scores stand at the top of results.json."""
    results = folder.read("results") if folder.has("results") else {}
    place = results
    if step != results.get("best_step"):
        others = results.setdefault("other_checkpoints", {})
        place = others.setdefault(str(step), {})
    place[split] = scores
    folder.write("results", results)


def _print_scores(scores: dict[str, Any]) -> None:
    top_5 = scores.get("top_5_accuracy")
    print(
        f"{scores['num_examples']:,} images: accuracy {scores['accuracy']:.2%}, "
        f"loss {scores['loss']:.4f}"
        + (f", top-5 {top_5:.2%}" if top_5 is not None else "")
    )
    width = max(map(len, scores["per_class"]))
    for name, one in scores["per_class"].items():
        print(f"  {name:<{width}}  {one['accuracy']:7.2%} of {one['support']:,}")


def main(arguments: Sequence[str]) -> None:
    """Scores one split with one checkpoint and adds the scores to results.json."""
    parser = argparse.ArgumentParser(
        prog="python -m vit_jax.evaluate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Settings of data.* and eval_batch_size may be given as for main, for "
        "example --config.data.dir=DIR on another machine.",
        allow_abbrev=False,
    )
    parser.add_argument("--workdir", required=True, help="the run's folder")
    parser.add_argument("--checkpoint", default="best", help="best, latest or a step")
    parser.add_argument(
        "--split", default="test", help="test, val, train or subset_test"
    )
    options, overrides = parser.parse_known_args(arguments)
    flags = [f"--{name}" for name in vars(options)]
    which = options.checkpoint
    run = runs.load_run(options.workdir, int(which) if which.isdigit() else which)
    config = apply_overrides(run.config, overrides, flags)
    splits = data.load(config.data)
    if options.split not in splits:
        raise UserError(
            f"There is no split {options.split}{did_you_mean(options.split, splits)}; "
            f"this run has {', '.join(splits)}."
        )
    dataset = splits[options.split]
    if dataset.class_names != run.class_names:
        raise UserError(
            f"The run was trained on the classes {', '.join(run.class_names)}, but the "
            f"data have {', '.join(dataset.class_names)}; give the dataset it was "
            "trained on."
        )
    mesh = meshes.make_mesh(1)
    logits = score_split(
        run.variables,
        dataset.images,
        eval_step=make_eval_step(run.model, run.normalize, mesh),
        batch_size=min(config.eval_batch_size, len(dataset)),
        mesh=mesh,
    )
    scores = describe_scores(logits, dataset)
    _add_to_results(RunFolder(run.workdir), run.step, options.split, scores)
    _print_scores(scores)


if __name__ == "__main__":
    run_command(main)
