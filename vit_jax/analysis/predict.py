"""Predictions for image files, with a figure of each."""

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from vit_jax.interpret import inputs
from vit_jax.models import ViT
from vit_jax.runs.load import Run

TOP = 3
# Images at once. A ViT of 256 tokens and 7 blocks has some 120 MB of attention for 16.
_BATCH_SIZE = 16


def describe(
    probabilities: Float[np.ndarray, "classes"], class_names: Sequence[str]
) -> dict[str, Any]:
    """ "top": the likeliest classes, likeliest first, and a "sentence" on how sure."""
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


def heat_maps(
    run: Run,
    images: UInt8[np.ndarray, "n height width channels"],
    classes: np.ndarray,
) -> Float[np.ndarray, "n rows columns"]:
    """Attention of the last block, mean over heads; of a ResNet Grad-CAM of `classes`.

    The attention is the class token's, or what takes its place where patches are
    pooled, see `interpret.attention`.
    """
    from vit_jax.interpret.attention import read_attention
    from vit_jax.interpret.gradcam import grad_cam

    if isinstance(run.model, ViT):
        return read_attention(run, images).maps()[:, -1].mean(axis=1)
    return grad_cam(run, images, classes)


def predict_files(
    run: Run,
    files: Sequence[pathlib.Path],
    images: UInt8[np.ndarray, "n height width channels"],
    figures: pathlib.Path | None = None,
) -> Iterator[dict[str, Any]]:
    """Yields "file", "top", "sentence" and "temperature" of each image.

    Args:
      run: to predict with.
      files: the images, which figures show as they are.
      images: as the model takes them.
      figures: folder for a figure of each; None: no figures.
    """
    for start in range(0, len(images), _BATCH_SIZE):
        batch = images[start : start + _BATCH_SIZE]
        probabilities = run.predict(batch, calibrated=True)
        if figures is not None:
            maps = heat_maps(run, batch, probabilities.argmax(axis=1))
        for i in range(len(batch)):
            file = files[start + i]
            found = describe(probabilities[i], run.class_names)
            if figures is not None:
                path = figures / f"{start + i + 1:03d}_{file.stem}.png"
                is_vit = isinstance(run.model, ViT)
                map_name = "attention, last block" if is_vit else "Grad-CAM"
                _draw(path, file, found, maps[i], map_name)
            yield {"file": str(file), **found, "temperature": run.temperature}


def _draw(path, file, found, heat_map, heat_map_name) -> None:
    from vit_jax.figures import predict, style

    figure = predict.prediction(
        inputs.read_photo(file),
        [one["class"] for one in found["top"]],
        [one["probability"] for one in found["top"]],
        heat_map=heat_map,
        heat_map_name=heat_map_name,
        sentence=found["sentence"],
        title=file.name,
    )
    style.save(figure, path)
