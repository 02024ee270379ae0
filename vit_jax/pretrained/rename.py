"""Gives tensors this package's names, and one form.

Kernels of dense layers become [inputs, outputs], of convolutions [height, width,
inputs, outputs], and the kernel of queries, keys and values [width, 3 width], whatever
the number of heads.
"""

import dataclasses
import math
import re
from typing import Any

import numpy as np

from vit_jax.errors import UserError, show
from vit_jax.models.encoder import ACTIVATIONS
from vit_jax.pretrained.layouts import DINO_PREFIXES, DROPPED, LAYOUTS, Layout
from vit_jax.pretrained.read import Weights

# The settings of a model that the shapes of its parameters do not show. The last one
# and those of a convolutional stem are stated by our own runs alone.
_METADATA_SETTINGS = (
    "num_heads", "norm_eps", "activation", "norm_position", "position_embedding"
)  # fmt: skip
# How often, and how, a convolutional stem halves the image.
OF_A_CONV_STEM = ("patch_size", "stem_downsampling")


@dataclasses.dataclass
class Renamed:
    """Tensors by this package's names, in unified form, positions not yet resized.

    Attributes:
      layout: a key of `LAYOUTS`, or "vit_jax".
      tensors: by names such as "block0/norm1/scale".
      sources: the name in the file of each tensor; of several, joined by " + ".
      dropped: why what the file has and no model needs was left out, by its name.
      unknown: names in the file that the tables lack.
      settings: of the model, without its sizes, as the layout and the file state them.
      resize: how the code that the file comes from resizes positions, see `fit.RULES`.
    """

    layout: str
    tensors: dict[str, np.ndarray]
    sources: dict[str, str]
    dropped: dict[str, str]
    unknown: list[str]
    settings: dict[str, Any]
    resize: str


def rename(weights: Weights) -> Renamed:
    """Gives the tensors of a file this package's names and form.

    Raises:
      UserError: the names are of no known layout.
    """
    name, prefix = _find_layout(weights)
    layout = LAYOUTS.get(name)
    is_conv = weights.metadata.get("stem") == "conv"
    names = _METADATA_SETTINGS + (OF_A_CONV_STEM if is_conv else ())
    stated = {key: weights.metadata.get(key) for key in names}
    if (activation := stated["activation"]) is not None:
        stated["activation"] = _known_activation(activation, weights.path)
    stated = {key: value for key, value in stated.items() if value is not None}
    settings = dict(layout.settings) if layout else {}
    resize = layout.resize if layout else "cubic_antialias"
    if prefix in DINO_PREFIXES:
        resize = "dino"
    renamed = Renamed(name, {}, {}, {}, [], settings | stated, resize)
    for source, array in _unstacked(weights.tensors).items():
        _add(renamed, layout, prefix, source, array)
    for kernel in [x for x in renamed.tensors if x.endswith("attention/query/kernel")]:
        _join_queries_keys_values(renamed, kernel.removesuffix("/query/kernel"))
    has_final_norm = "final_norm/scale" in renamed.tensors
    for name in ("feature_norm/scale", "feature_norm/bias"):
        if name in renamed.tensors:
            array, source = renamed.tensors.pop(name), renamed.sources.pop(name)
            if has_final_norm:
                renamed.dropped[source] = "the model normalises before the pooling only"
            else:
                target = name.replace("feature", "final")
                renamed.tensors[target], renamed.sources[target] = array, source
    return renamed


def _find_layout(weights: Weights) -> tuple[str, str]:
    if weights.format == "vit_jax":
        return "vit_jax", ""
    for name, layout in LAYOUTS.items():
        for prefix in layout.prefixes:
            if prefix + layout.marker in weights.tensors:
                return name, prefix
    first = ", ".join(list(weights.tensors)[:4]) or "no tensors"
    markers = ", ".join(layout.marker for layout in LAYOUTS.values())
    raise UserError(
        f"The weights file {weights.path} holds no ViT of known names: it begins with "
        f"{first}, expected one of {markers}; give weights of timm, DINO, Google "
        "or Hugging Face."
    )


def _unstacked(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """big_vision's scanned form, all blocks stacked in one array, block by block."""
    result = {}
    for name, array in tensors.items():
        if "/encoderblock/" in name and array.size:
            for i, part in enumerate(array):
                result[name.replace("/encoderblock/", f"/encoderblock_{i}/")] = part
        else:
            result[name] = array
    return result


def _add(
    renamed: Renamed, layout: Layout | None, prefix: str, source: str, array: np.ndarray
) -> None:
    target: str | None = source
    if layout is None and source.startswith("decoder"):
        renamed.dropped[source] = "the decoder of a masked autoencoder"
        return
    if layout:
        short = source.removeprefix(prefix)
        for pattern, reason in DROPPED.items():
            if re.fullmatch(pattern, short):
                renamed.dropped[source] = reason
                return
        if source.startswith("opt/") and not (prefix and source.startswith(prefix)):
            renamed.dropped[source] = "the state of an optimizer"
            return
        target = _target(layout.layers, short, array.ndim)
    if target is None or target in renamed.tensors:
        renamed.unknown.append(source)
        return
    # Kernels that have an axis for the heads tell their number.
    for layer, ndim in (("query", 3), ("qkv", 4)):
        if target.endswith(f"attention/{layer}/kernel") and array.ndim == ndim:
            renamed.settings.setdefault("num_heads", array.shape[-2])
    if renamed.layout in ("timm", "hugging_face") and target.endswith("kernel"):
        array = array.transpose(2, 3, 1, 0) if array.ndim == 4 else array.T
    renamed.tensors[target] = array.reshape(unified_shape(target, array.shape))
    renamed.sources[target] = source


def _target(layers: dict[str, str], name: str, ndim: int) -> str | None:
    """Our name, or None where the table has none."""
    block = re.search(r"(blocks\.|layer\.|encoderblock_)(\d+)", name)
    if block:
        name = f"{name[: block.start(2)]}#{name[block.end(2) :]}"
    layer, _, leaf = name.replace("/", ".").rpartition(".")
    layer = name[: len(layer)]
    target = layers.get(name)
    if target is None and layer in layers:
        weight = "kernel" if ndim > 1 else "scale"
        leaf = {"weight": weight, "gamma": "scale"}.get(leaf, leaf)
        if leaf in ("kernel", "scale", "bias"):
            target = f"{layers[layer]}/{leaf}"
    if target and block:
        target = target.replace("#", block.group(2))
    return target


def unified_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The form of a parameter of ours whose heads may have an axis of their own."""
    if "/attention/" in name and len(shape) > 1:
        if name.endswith("out/kernel"):
            return (math.prod(shape[:-1]), shape[-1])
        if name.endswith("kernel"):
            return (shape[0], math.prod(shape[1:]))
        if name.endswith("bias"):
            return (math.prod(shape),)
    return shape


def _join_queries_keys_values(renamed: Renamed, attention: str) -> None:
    for leaf in ("kernel", "bias"):
        parts = [f"{attention}/{part}/{leaf}" for part in ("query", "key", "value")]
        shapes = {getattr(renamed.tensors.get(x), "shape", None) for x in parts}
        if len(shapes) == 1 and shapes.isdisjoint({None, ()}):
            arrays = [renamed.tensors.pop(part) for part in parts]
            sources = [renamed.sources.pop(part) for part in parts]
            renamed.tensors[f"{attention}/qkv/{leaf}"] = np.concatenate(arrays, axis=-1)
            renamed.sources[f"{attention}/qkv/{leaf}"] = " + ".join(sources)


def _known_activation(name: Any, path: str) -> str:
    """Our name of an activation that the file at `path` states."""
    # Those on the left are of Hugging Face.
    names = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
    names |= {own: own for own in ACTIVATIONS}
    if name not in [*names]:
        raise UserError(
            f"The weights file {path} is of a model with activation {show(name)}, but "
            f"ViTs here have one of {', '.join(ACTIVATIONS)}; give another file."
        )
    return names[name]


def settings_of(renamed: Renamed, path: str) -> dict[str, Any]:
    """The settings of `config.model` that the tensors imply, as far as they do.

    `num_heads` is there only where the file states it; `layer_scale` is any number but
    0 where its factors are in the file.

    Raises:
      UserError: the patch projection or a token has a form that no ViT has.
    """
    tensors, settings = renamed.tensors, dict(renamed.settings)
    if renamed.layout == "vit_jax":
        return settings
    # A file may have a vector in its place, which then has another name.
    kernel = tensors.get("stem/projection/kernel", np.empty(1))
    width = kernel.shape[-1]
    tokens = ("class_token", "registers", "distillation_token", "positions")
    forms = {name: tensors[name].shape for name in tokens if name in tensors}
    if (
        kernel.ndim != 4
        or not kernel.size
        or kernel.shape[0] != kernel.shape[1]
        or any((len(x), x[0], x[-1]) != (3, 1, width) for x in forms.values())
    ):
        raise UserError(
            f"The weights file {path} has a patch projection of shape {kernel.shape} "
            f"and tokens of shapes {forms}, expected [side, side, channels, width] and "
            "[1, tokens, width]; give the weights of a ViT."
        )
    settings["patch_size"] = kernel.shape[0]
    settings["width"] = width
    blocks = {name.split("/")[0] for name in tensors if name.startswith("block")}
    settings["depth"] = len(blocks)
    if "block0/mlp/hidden/bias" in tensors:
        settings["mlp_ratio"] = tensors["block0/mlp/hidden/bias"].size / width
    settings["qkv_bias"] = "block0/attention/qkv/bias" in tensors
    settings["qk_norm"] = "block0/attention/query_norm/scale" in tensors
    settings["layer_scale"] = 1e-5 * ("block0/branch_scale1/scale" in tensors)
    settings["patch_norm"] = "patch_norm/scale" in tensors
    settings["final_norm"] = "final_norm/scale" in tensors
    if "positions" in tensors:
        settings["position_embedding"] = "learned"
    averaged = "fc_norm" in renamed.sources.get("final_norm/scale", "")
    averaged = averaged or "class_token" not in tensors
    settings["pooling"] = "mean" if averaged else "cls"
    registers = tensors.get("registers")
    settings["num_registers"] = 0 if registers is None else registers.shape[1]
    settings["distillation_token"] = not averaged and "distillation_token" in tensors
    return settings
