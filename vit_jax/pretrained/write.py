"""Writes a ViT's parameters as timm has them."""

import json
import os
from typing import Any

import numpy as np
from flax import linen as nn
from flax import traverse_util

from vit_jax.errors import UserError
from vit_jax.models import ViT
from vit_jax.models.encoder import mlp_width
from vit_jax.pretrained.layouts import TIMM
from vit_jax.pretrained.rename import unified_shape
from vit_jax.pretrained.safetensors_format import write_safetensors

# The values with which timm's ViT is the same model; it has no others.
_NEEDED = {
    "stem": "patch",
    "norm_position": "pre",
    "position_embedding": "learned",
    "qk_norm": False,
    "local_attention": False,
}


def save_timm(
    path: str | os.PathLike,
    model: nn.Module,
    params: dict[str, Any],
    image_shape: tuple[int, int, int],
) -> dict[str, Any]:
    """Writes safetensors that timm's `VisionTransformer` loads with strict=True.

    A model with a distillation token is timm's `VisionTransformerDistilled`.

    Args:
      path: of the file, which is replaced.
      model: a ViT with a patch stem, norms before the sublayers and learned positions.
      params: its parameters.
      image_shape: of the images it sees, [height, width, channels].

    Returns:
      The arguments with which that class of timm is the same model. They are in the
      file's metadata too. Where `model.norm_eps` is not timm's 1e-6, timm also needs
      `norm_layer=functools.partial(torch.nn.LayerNorm, eps=model.norm_eps)`, and the
      same as `embed_norm_layer` where `model.patch_norm` is True.

    Raises:
      UserError: timm has no such model, such as a ResNet or a masked autoencoder.
    """
    if type(model) is not ViT:
        raise UserError(
            f"The model is a {type(model).__name__}, but only a ViT can be written for "
            "timm."
        )
    unknown = [
        f"{name}={getattr(model, name)!r}, expected {needed!r}"
        for name, needed in _NEEDED.items()
        if getattr(model, name) != needed
    ]
    if model.pooling == "sequence":
        unknown.append('pooling="sequence", expected "cls" or "mean"')
    if model.distillation_token and model.num_registers:
        unknown.append("a distillation token and registers, expected one of them")
    if unknown:
        raise UserError(
            f"timm has no ViT with {unknown[0]}; such a model cannot be written for "
            "timm."
        )
    flat = traverse_util.flatten_dict(params, sep="/")
    tensors = dict(_to_timm(name, np.asarray(x)) for name, x in flat.items())
    if model.num_registers:
        # timm's registers stand behind the class token and have positions.
        num_class = int(model.pooling == "cls")
        positions = tensors["pos_embed"]
        none = np.zeros((1, model.num_registers, model.width), np.float32)
        tensors["pos_embed"] = np.concatenate(
            [positions[:, :num_class], none, positions[:, num_class:]], axis=1
        )
    arguments = _timm_arguments(model, image_shape)
    stated = {
        "num_heads": model.num_heads,
        "norm_eps": model.norm_eps,
        "activation": model.activation,
        "grid": [n // model.patch_size for n in image_shape[:2]],
    }
    metadata = {
        "format": "pt",
        "timm": json.dumps(arguments),
        "vit_jax": json.dumps(stated),
    }
    write_safetensors(path, tensors, metadata)
    return arguments


def _to_timm(name: str, array: np.ndarray) -> tuple[str, np.ndarray]:
    array = array.reshape(unified_shape(name, array.shape))
    if name.endswith("kernel"):
        array = array.transpose(3, 2, 0, 1) if array.ndim == 4 else array.T
    number = name.split("/")[0].removeprefix("block")
    general = name.replace(f"block{number}/", "block#/", 1)
    names = {ours: theirs for theirs, ours in reversed(TIMM.items())}
    layer, _, leaf = general.rpartition("/")
    if layer not in names:
        return names[general], array
    leaf = "gamma" if "branch_scale" in layer else leaf
    leaf = {"kernel": "weight", "scale": "weight"}.get(leaf, leaf)
    return f"{names[layer]}.{leaf}".replace("#", number), array


def _timm_arguments(model: ViT, image_shape: tuple[int, int, int]) -> dict[str, Any]:
    """Keyword arguments of `timm.models.VisionTransformer`."""
    height, width, channels = image_shape
    hidden = mlp_width(model.width, model.mlp_ratio)
    mlp_ratio = hidden / model.width
    if int(model.width * mlp_ratio) != hidden:  # as timm truncates it
        mlp_ratio = (hidden + 0.5) / model.width
    return {
        "img_size": [height, width],
        "patch_size": model.patch_size,
        "in_chans": channels,
        "num_classes": model.num_classes,
        "global_pool": "token" if model.pooling == "cls" else "avg",
        "class_token": model.pooling == "cls",
        "fc_norm": False,
        "final_norm": model.final_norm,
        "embed_dim": model.width,
        "depth": model.depth,
        "num_heads": model.num_heads,
        "mlp_ratio": mlp_ratio,
        "qkv_bias": model.qkv_bias,
        "init_values": model.layer_scale or None,
        "reg_tokens": model.num_registers,
        "embed_norm_layer": "layernorm" if model.patch_norm else None,
        "act_layer": model.activation,
    }
