"""Pretrained weights as the parameters of a model, checked before JAX compiles."""

import math
import os
import re
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import traverse_util
from jaxtyping import PRNGKeyArray

from vit_jax.errors import UserError, require_known
from vit_jax.models import ViT, init_variables, variable_shapes
from vit_jax.pretrained.fit import RULES, fit_tokens, resize_kernel
from vit_jax.pretrained.match import Report, match_parameters
from vit_jax.pretrained.read import Weights, read_weights
from vit_jax.pretrained.rename import OF_A_CONV_STEM, Renamed, rename, settings_of

HEADS = ("fresh", "zero", "keep")


def load_pretrained(
    source: str | os.PathLike | Weights,
    model: nn.Module,
    image_shape: tuple[int, int, int],
    key: PRNGKeyArray,
    *,
    head: str = "fresh",
    resize: str = "cubic_antialias",
    resize_patches: bool = False,
    grid: tuple[int, int] | None = None,
    allow: tuple[str, ...] = (),
) -> tuple[dict[str, Any], Report]:
    """The parameters of a model, from pretrained weights fitted to it and its images.

    Args:
      source: a file or folder that `read_weights` reads, or what it returned.
      model: a ViT of the same sizes; for weights of this package, also a ResNet.
      image_shape: of the images that the model will see, [height, width, channels].
        Kernels for RGB are summed over the channels for grey images.
      key: for what is newly initialised.
      head: "fresh", as the model initialises it; "zero"; or "keep", the file's.
      resize: how positions are resized: a name in `fit.RULES`, or "origin" for the rule
        in the code that the weights come from.
      resize_patches: whether the patch projection may be resized, see
        `fit.resize_kernel`.
      grid: rows and columns of the file's positions, where they are not square.
      allow: regular expressions. A parameter that the file lacks or has in another
        shape is newly initialised, and a tensor that the model has no place for is
        dropped, only if one of these matches its whole name.

    Returns:
      Float32 parameters as `model.init` returns them, and what became of each tensor.

    Raises:
      UserError: the file cannot be read, or does not fit the model.
    """
    weights = source if isinstance(source, Weights) else read_weights(source)
    _check_options(model, weights, head, resize, allow)
    renamed = rename(weights)
    for name, array in renamed.tensors.items():
        renamed.tensors[name] = np.asarray(array, np.float32)
    report = _start_report(weights, renamed, model)
    _check_meaning(report, model)
    _note_order_of_norm(renamed, report, model)
    shapes = traverse_util.flatten_dict(
        variable_shapes(model, image_shape)["params"], sep="/"
    )
    shapes = {name: leaf.shape for name, leaf in shapes.items()}
    if isinstance(model, ViT):
        fit_tokens(
            renamed,
            report,
            shapes=shapes,
            old_grid=grid or weights.metadata.get("grid"),
            new_grid=tuple(n // model.patch_size for n in image_shape[:2]),
            rule=renamed.resize if resize == "origin" else resize,
        )
        if model.stem == "patch":
            _fit_stem(renamed, report, shapes, resize_patches)
    _fit_head(renamed, report, shapes, head)
    params = match_parameters(renamed, report, shapes, allow)
    if any(name not in params for name in shapes):
        fresh = init_variables(model, key, image_shape)["params"]
        params = traverse_util.flatten_dict(fresh, sep="/") | params
    # A copy: JAX may otherwise keep the file's bytes, and donated buffers are reused.
    params = {name: jnp.array(params[name]) for name in shapes}
    return traverse_util.unflatten_dict(params, sep="/"), report


def implied_settings(source: str | os.PathLike | Weights) -> dict[str, Any]:
    """The settings of `config.model` that pretrained weights ask for.

    Raises:
      UserError: the file cannot be read, or holds no ViT.
    """
    weights = source if isinstance(source, Weights) else read_weights(source)
    return settings_of(rename(weights), weights.path)


def _check_options(
    model: nn.Module, weights: Weights, head: str, resize: str, allow: tuple[str, ...]
) -> None:
    if not isinstance(model, ViT) and weights.format != "vit_jax":
        raise UserError(
            f"The weights file {weights.path} is read for ViTs, but the model is a "
            f"{type(model).__name__}; set config.model.name to a ViT, or give a run's "
            "folder to config.pretrained.path."
        )
    require_known(head, HEADS, "head of pretrained weights", "take")
    rules = (*RULES, "origin")
    require_known(resize, rules, "resize of pretrained weights", "take")
    for pattern in allow:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UserError(
                f"{pattern!r}, of the names that pretrained weights may miss, is no "
                f"regular expression ({error}); correct it."
            ) from None


def _start_report(weights: Weights, renamed: Renamed, model: nn.Module) -> Report:
    settings = settings_of(renamed, weights.path)
    # A file without positions may be of a model that computes them.
    assumed = {
        name: getattr(model, name)
        for name in ("num_heads", "position_embedding")
        if name not in settings and hasattr(model, name)
    }
    return Report(
        path=weights.path,
        format=weights.format,
        sha256=weights.sha256,
        layout=renamed.layout,
        settings=settings,
        differences={
            name: (value, getattr(model, name, None))
            for name, value in settings.items()
            if not _same(name, value, getattr(model, name, None))
        },
        assumed=assumed,
        dropped=dict(renamed.dropped),
    )


def _check_meaning(report: Report, model: nn.Module) -> None:
    """Refuses settings with which the same tensors would compute something else."""
    names = ("num_heads", "norm_position", "position_embedding")
    # The tensors of a stem of another kind, such as all files that other packages wrote
    # have, do not fit, or are not wanted.
    if getattr(model, "stem", "") == "conv" and report.layout == "vit_jax":
        names += OF_A_CONV_STEM
    for name in names:
        if name in report.differences and hasattr(model, name):
            theirs, ours = report.differences[name]
            # Positions that are parameters are there or not.
            if "learned" in (theirs, ours):
                continue
            raise UserError(
                f"The weights {report.path} are of a model with {name}={theirs}, but "
                f"config.model.{name} is {ours}, with which they mean something else; "
                f"set config.model.{name}={theirs}."
            )


def _note_order_of_norm(renamed: Renamed, report: Report, model: nn.Module) -> None:
    """Notes a last norm that is behind the mean in the file, and before it here."""
    source = renamed.sources.get("final_norm/scale", "")
    if "fc_norm" in source and getattr(model, "pooling", "") == "mean":
        report.resized["final_norm/scale"] = (
            "the file normalises the mean of the tokens, the model each token before"
        )


def _same(name: str, value: Any, ours: Any) -> bool:
    if name == "layer_scale":
        return bool(value) == bool(ours)
    if isinstance(value, float) and isinstance(ours, int | float):
        return math.isclose(value, ours)
    return value == ours


def _fit_stem(
    renamed: Renamed,
    report: Report,
    shapes: dict[str, tuple[int, ...]],
    resize_patches: bool,
) -> None:
    name = "stem/projection/kernel"
    kernel = renamed.tensors.get(name, np.empty(0))
    shape = shapes.get(name, ())
    if kernel.ndim != 4 or len(shape) != 4:
        return
    side, _, channels, _ = kernel.shape
    new_side, _, new_channels, _ = shape
    if channels != new_channels:
        if (channels, new_channels) != (3, 1):
            raise UserError(
                f"The weights file {report.path} is for images of {channels} channels, "
                f"but these have {new_channels}; only grey images can be fitted, to "
                "weights for 3 channels."
            )
        # A grey image stands for one whose three channels are equal.
        kernel = kernel.sum(axis=2, keepdims=True)
        report.resized[name] = "3 channels to 1 (sum)"
    if side != new_side:
        if not resize_patches:
            raise UserError(
                f"The weights file {report.path} has patches of {side} pixels, but "
                f"config.model.patch_size is {new_side}; set it to {side}, or "
                "config.pretrained.resize_patches to True."
            )
        kernel = resize_kernel(kernel, new_side)
        both = f"{report.resized[name]}, " if name in report.resized else ""
        report.resized[name] = (
            f"{both}{side} x {side} to {new_side} x {new_side} pixels (FlexiViT)"
        )
    renamed.tensors[name] = kernel


def _fit_head(
    renamed: Renamed, report: Report, shapes: dict[str, tuple[int, ...]], head: str
) -> None:
    for name in ("distillation_head/kernel", "distillation_head/bias"):
        if name in renamed.tensors and name not in shapes:
            del renamed.tensors[name]
            reason = "the model has no distillation token"
            report.dropped[renamed.sources.pop(name)] = reason
    if any(name.startswith("decoder") for name in report.dropped):
        # A masked autoencoder, which has no pooling.
        for name in {x for x in shapes if x.startswith("pool/")} - {*renamed.tensors}:
            report.new[name] = "a masked autoencoder has no pooling"
    if head == "keep":
        if "head/bias" not in shapes:
            return  # A model of the user's own: `match_parameters` compares all names.
        num_classes = renamed.tensors.get("head/bias", np.empty(0)).size
        found = f"has {num_classes} classes"
        between = [name for name in report.dropped if "pre_logits" in name]
        if between:
            found = f"reads {between[0]}"
        elif "final_norm/scale" in report.resized:
            between = ["fc_norm"]
            found = "reads the normalised mean of the tokens"
        if num_classes != shapes["head/bias"][0] or between:
            raise UserError(
                f"The head of the weights file {report.path} {found}, but the model's "
                f"reads the features and has {shapes['head/bias'][0]} classes; set "
                "config.pretrained.head to fresh or zero."
            )
        return
    names = [x for x in shapes if x.split("/")[0] in ("head", "distillation_head")]
    for name in names:
        if renamed.tensors.pop(name, None) is not None:
            report.dropped[renamed.sources.pop(name)] = f"the head is {head}"
        report.new[name] = f"a {head} head"
        if head == "zero":
            renamed.tensors[name] = np.zeros(shapes[name], np.float32)
