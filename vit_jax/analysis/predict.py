"""Predictions for image files, with a figure of each."""

import argparse
import itertools
import json
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from vit_jax.errors import UserError
from vit_jax.figures import predict as predict_figures
from vit_jax.figures import style
from vit_jax.files import make_folder
from vit_jax.interpret import attention, gradcam, inputs
from vit_jax.models import ResNet, ViT
from vit_jax.runs.load import load_classifier
from vit_jax.runs.run import Run

TOP = 3
# Images per forward pass. The attention weights of a ViT with 256 tokens and 7 blocks
# take some 120 MB for 16.
_BATCH_SIZE = 16


def describe(
    probabilities: Float[np.ndarray, " classes"], class_names: Sequence[str]
) -> dict[str, Any]:
    """The most probable classes.

    Returns:
      top: a list of "class" and "probability", the most probable first; sentence: the
      first of them, with the confidence in words.
    """
    order = np.argsort(-probabilities, kind="stable")[:TOP]
    top = [
        {"class": class_names[i], "probability": float(probabilities[i])} for i in order
    ]
    best = f"{top[0]['class']} ({top[0]['probability']:.1%})"
    if top[0]["probability"] > 0.9:
        sentence = f"very sure: {best}"
    elif top[0]["probability"] > 0.7:
        sentence = f"fairly sure: {best}"
    else:
        sentence = f"unsure: perhaps {best}"
    return {"top": top, "sentence": sentence}


def finite_probabilities(
    run: Run, images: UInt8[np.ndarray, "n height width channels"]
) -> Float[np.ndarray, "n classes"]:
    """The run's calibrated probabilities; raises UserError if one is not finite."""
    probabilities = run.predict(images, calibrated=True)
    if not np.isfinite(probabilities).all():
        raise UserError(
            f"Logits of the model of step {run.step:,} in {run.workdir} are not "
            "finite; give another --checkpoint, or train with a lower learning rate."
        )
    return probabilities


def predict(options: argparse.Namespace) -> int:
    """Prints the most probable classes of image files; returns 1 if one was skipped."""
    run = load_classifier(options.workdir, options.checkpoint)
    wanted = inputs.find_images(options.files)
    read = inputs.read_images(wanted, run.image_shape)
    if options.figures is not None:
        make_folder(options.figures, "--figures")
    num_read = 0
    for found in predict_files(run, read, options.figures):
        print(json.dumps(found) if options.json else _to_text(found))
        num_read += 1
    if num_read and not options.json:
        print(describe_temperature(run.temperature))
    return int(num_read < len(wanted))


def describe_temperature(temperature: float) -> str:
    """What the probabilities of a run are, as a line for a terminal."""
    if temperature == 1:
        return (
            "The probabilities are the model's own: no temperature is fitted (T = 1)."
        )
    return f"The probabilities are calibrated: logits over T = {temperature:.3g}."


def _to_text(found: Mapping[str, Any]) -> str:
    lines = [found["file"], f"  {found['sentence']}"]
    width = max(len(one["class"]) for one in found["top"])
    for one in found["top"]:
        bar = "█" * round(30 * one["probability"])
        lines.append(f"  {one['class']:<{width}}  {one['probability']:6.1%}  {bar}")
    if "figure" in found:
        lines.append(f"  {found['figure']}")
    return "\n".join(lines)


def predict_files(
    run: Run,
    read: Iterable[tuple[pathlib.Path, UInt8[np.ndarray, "height width channels"]]],
    figures: pathlib.Path | None = None,
) -> Iterator[dict[str, Any]]:
    """Yields "file", "top", "sentence", "temperature" and perhaps "figure" of an image.

    A figure has a heat map: of a ViT the attention of the last block, mean over heads,
    as `interpret.attention` reads it; of a ResNet the Grad-CAM of the predicted class.
    Of any other model it has none, and a note on standard error says so.

    Args:
      read: files, and their images as the model takes them. A figure shows the file's
        own pixels.
      figures: folder for a figure of each; None: no figures.
    """
    heat_map_name = ""
    if isinstance(run.model, ViT):
        heat_map_name = "attention, last block"
    elif isinstance(run.model, ResNet):
        heat_map_name = "Grad-CAM"
    elif figures is not None:
        model = type(run.model).__name__
        print(
            f"note: figures have no heat map, because {model} is neither a ViT nor a "
            "ResNet",
            file=sys.stderr,
        )
    stream, number = iter(read), 0
    while some := list(itertools.islice(stream, _BATCH_SIZE)):
        batch = np.stack([image for _, image in some])
        probabilities = finite_probabilities(run, batch)
        found = [describe(values, run.class_names) for values in probabilities]
        maps: Any = [None] * len(batch)
        if figures is not None and isinstance(run.model, ViT):
            maps = attention.read_attention(run, batch).maps()[:, -1].mean(axis=1)
        elif figures is not None and heat_map_name:
            maps = gradcam.grad_cam(run, batch, probabilities.argmax(axis=1))
        for (file, _), one, heat_map in zip(some, found, maps, strict=True):
            number += 1
            if figures is not None:
                figure = predict_figures.prediction(
                    inputs.read_photo(file, run.image_shape),
                    [top["class"] for top in one["top"]],
                    [top["probability"] for top in one["top"]],
                    heat_map=heat_map,
                    heat_map_name=heat_map_name,
                    sentence=one["sentence"],
                    title=file.name,
                )
                path = figures / f"{number:03d}_{file.stem[:60]}.png"
                style.save(figure, path)
                one["figure"] = str(path)
            yield {"file": str(file), **one, "temperature": run.temperature}
