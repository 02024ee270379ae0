"""The parts of a network, read from the module without computing anything."""

import math

from flax import linen as nn

from vit_jax import models
from vit_jax.errors import UserError
from vit_jax.figures.architecture import Architecture, Branch, Part
from vit_jax.interpret.traced import (
    Traced,
    convolution_part,
    head_parts,
    image_part,
    times,
    tokens,
)

_POSITIONS = {
    "learned": "learned",
    "sinusoidal_1d": "sines and cosines of the place",
    "sinusoidal_2d": "sines and cosines of row and column",
}
_POOLING = {"max_pool": "3 × 3 max pooling", "avg_pool": "2 × 2 average pooling"}
_ACTIVATIONS = {"gelu": "GELU", "gelu_tanh": "GELU (tanh)", "relu": "ReLU"}
_TRAINING_RATES = {
    "embedding_dropout": "dropout on the tokens",
    "attention_dropout": "dropout on attention weights",
    "dropout": "dropout after attention and MLP layers",
    "mlp_output_dropout": "dropout on the MLP's output",
    "drop_path": "stochastic depth up to",
}


def describe_architecture(
    model: nn.Module, image_shape: tuple[int, int, int]
) -> Architecture:
    """The parts of a model for images [height, width, channels], with their shapes.

    Raises:
      UserError: it is neither a ViT nor a ResNet.
    """
    if isinstance(model, models.ViT):
        return _describe_vit(model, Traced(model, image_shape))
    if isinstance(model, models.ResNet):
        return _describe_resnet(model, Traced(model, image_shape))
    raise UserError(
        f"The parts of a {type(model).__name__} are not known, so it cannot be drawn; "
        "ViTs and ResNets can. --config.parameter_overview=True lists the parameters "
        "of any model."
    )


def _describe_vit(model: models.ViT, traced: Traced) -> Architecture:
    entering = traced.inputs["block0"]
    blocks = [f"block{i}" for i in range(model.depth)]
    num_params = traced.count(*blocks)
    each = (f"{traced.count(blocks[0]):,} parameters each",) if model.depth > 1 else ()
    encoder = Part(
        f"Encoder block × {model.depth}",
        (f"{model.norm_position}-norm", *each),
        "block",
        tokens(traced.outputs[blocks[-1]]),
        num_params,
    )
    before = (image_part(traced), *_stem(model, traced), *_to_tokens(model, traced))
    after = [_pooling(model, traced), *head_parts(traced)]
    if model.final_norm:
        after.insert(0, _layer(traced, "final_norm", "Final LayerNorm"))
    rates = [
        f"{text} {getattr(model, name):g}"
        for name, text in _TRAINING_RATES.items()
        if getattr(model, name)
    ]
    return Architecture(
        parts=(*before, encoder, *after),
        opened=len(before),
        block_title=f"Encoder block, {model.norm_position}-norm",
        block_input=tokens(entering),
        block=_encoder_block(model, traced),
        notes=(f"In training only: {', '.join(rates)}.",) if rates else (),
    )


def _layer(
    traced: Traced, path: str, name: str, *lines: str, kind: str = "norm"
) -> Part:
    """A layer from tokens to tokens, with all of its parameters."""
    shape = tokens(traced.outputs[path])
    return Part(name, lines, kind, shape, traced.count(path))


def _stem(model: models.ViT, traced: Traced) -> tuple[Part, ...]:
    """From the image to a grid of tokens."""
    output = traced.outputs["stem"]
    side = traced.inputs["stem"][0] // output[0]
    if model.stem != "conv":
        *patch, width = traced.kernel("stem/projection")
        lines = (f"{side} × {side} pixels each: linear, {math.prod(patch)} → {width}",)
        name = "Patch embedding"
        if model.stem == "shifted_patch":
            lines = ("the image and its four diagonal shifts", "LayerNorm", *lines)
            name = "Shifted patch embedding"
        return (Part(name, lines, "embedding", times(*output), traced.count("stem")),)
    parts: list[Part] = []
    has_norm = model.stem_norm == "batch"
    num_layers = len(model.stem_channels) + (not has_norm)
    paths = [f"stem/conv{i}" for i in range(num_layers)]
    last = traced.inputs["stem/projection"] if has_norm else output
    following = [traced.inputs[path] for path in paths[1:]] + [last]
    for i, (path, shape) in enumerate(zip(paths, following, strict=True)):
        norm = f"stem/norm{i}" if has_norm else ""
        parts.append(convolution_part(traced, path, norm=norm, after="ReLU"))
        if shape != traced.outputs[path]:
            stride = traced.outputs[path][0] // shape[0]
            lines = (f"stride {stride}",)
            name = _POOLING[model.stem_downsampling]
            parts.append(Part(name, lines, "convolution", times(*shape)))
    if has_norm:
        parts.append(convolution_part(traced, "stem/projection"))
    return tuple(parts)


def _to_tokens(model: models.ViT, traced: Traced) -> tuple[Part, ...]:
    """From the grid to the sequence that enters the first block."""
    rows, columns, width = traced.outputs["stem"]
    length = rows * columns

    def part(name: str, line: str, path: str = "") -> Part:
        num_params = traced.count(path) if path else 0
        return Part(name, (line,), "embedding", tokens((length, width)), num_params)

    parts = [part("Tokens", "the grid, row by row")]
    if model.patch_norm:
        parts.append(_layer(traced, "patch_norm", "LayerNorm"))
    if "class_token" in traced.params:
        length += traced.params["class_token"].shape[1]
        parts.append(part("Class token", "learned, put in front", "class_token"))
    if "distillation_token" in traced.params:
        length += traced.params["distillation_token"].shape[1]
        where = "learned, put behind the class token"
        parts.append(part("Distillation token", where, "distillation_token"))
    if model.position_embedding != "none":
        form = f"{_POSITIONS[model.position_embedding]}, added"
        parts.append(part("Positions", form, "positions"))
    if "registers" in traced.params:
        length += traced.params["registers"].shape[1]
        parts.append(part("Registers", "learned, put behind", "registers"))
    return tuple(parts)


def _encoder_block(model: models.ViT, traced: Traced) -> tuple[Part | Branch, ...]:
    """The first one, of which all are copies."""
    norms = [_layer(traced, f"block0/norm{i}", "LayerNorm") for i in (1, 2)]
    sublayers = [_attention(model, traced), _mlp(model, traced)]
    for i, parts in enumerate(sublayers, start=1):
        path = f"block0/branch_scale{i}"
        if traced.count(path):
            scale = f"one factor per channel, from {model.layer_scale:g}"
            parts.append(_layer(traced, path, "LayerScale", scale))
    if model.norm_position == "pre":
        pairs = zip(norms, sublayers, strict=True)
        return tuple(Branch((norm, *parts)) for norm, parts in pairs)
    pairs = zip(sublayers, norms, strict=True)
    return tuple(item for parts, norm in pairs for item in (Branch(tuple(parts)), norm))


def _attention(model: models.ViT, traced: Traced) -> list[Part]:
    path = "block0/attention"
    _, three, heads, head_width = qkv = traced.outputs[f"{path}/qkv"]
    width = traced.inputs[path][-1]
    bias = "" if model.qkv_bias else ", no bias"
    lines = [f"linear, {width} → {times(three, heads, head_width)}{bias}"]
    num_params = traced.count(f"{path}/qkv")
    if model.qk_norm:
        lines.append("LayerNorm on queries and keys")
        num_params += traced.count(f"{path}/query_norm", f"{path}/key_norm")
    scale = f"/ √{head_width}"
    if model.local_attention:
        scale = "· learned factor, without itself"
    mixed, output = traced.inputs[f"{path}/out"], traced.outputs[f"{path}/out"]
    projection = f"linear, {math.prod(mixed[1:])} → {output[-1]}"
    return [
        Part(
            "Queries, keys, values", tuple(lines), "attention", tokens(qkv), num_params
        ),
        Part(
            "Self-attention",
            (f"{heads} heads of width {head_width}", f"softmax(Q Kᵀ {scale}) V"),
            "attention",
            tokens(mixed),
            traced.count(f"{path}/inverse_temperature"),
        ),
        _layer(traced, f"{path}/out", "Projection", projection, kind="attention"),
    ]


def _mlp(model: models.ViT, traced: Traced) -> list[Part]:
    parts = []
    activation = f", {_ACTIVATIONS[model.activation]}"
    for name, title, after in (
        ("hidden", "MLP, hidden layer", activation),
        ("out", "MLP, output layer", ""),
    ):
        path = f"block0/mlp/{name}"
        before, output = traced.inputs[path], traced.outputs[path]
        line = f"linear, {before[-1]} → {output[-1]}{after}"
        parts.append(_layer(traced, path, title, line, kind="mlp"))
    return parts


def _pooling(model: models.ViT, traced: Traced) -> Part:
    name, line = {
        "cls": ("Class token", "the others are left out"),
        "mean": ("Mean pooling", "mean of the patches"),
        "sequence": ("Sequence pooling", "patches weighted by a learned softmax"),
    }[model.pooling]
    width = times(*traced.inputs["head"])
    if model.num_prefix_tokens == 2:
        name, width = "Class and distillation token", f"2 tokens × {width}"
    return Part(name, (line,), "head", width, traced.count("pool"))


def _describe_resnet(model: models.ResNet, traced: Traced) -> Architecture:
    """All parts, and one of its residual blocks."""
    stem = convolution_part(traced, "stem_conv", norm="stem_norm", after="ReLU")
    parts = [image_part(traced), stem]
    for stage, num_blocks in enumerate(model.stage_sizes, start=1):
        blocks = [f"stage{stage}_block{i + 1}" for i in range(num_blocks)]
        before, output = traced.inputs[blocks[0]], traced.outputs[blocks[-1]]
        stride = -(-before[0] // output[0])  # an odd side is rounded up
        change = f"{before[-1]} → {output[-1]} channels"
        change += f", first block of stride {stride}" if stride > 1 else ""
        parts.append(
            Part(
                f"Stage {stage}: residual block × {num_blocks}",
                (change,),
                "block",
                times(*output),
                traced.count(*blocks),
            )
        )
    rows, columns, width = traced.outputs[blocks[-1]]
    lines = (f"mean over {rows} × {columns}",)
    parts.append(Part("Global average pooling", lines, "head", f"{width}"))
    # The second stage's first block has a stride and a projection, if there is one.
    stage = min(2, len(model.stage_sizes))
    name = f"stage{stage}_block1"
    return Architecture(
        parts=(*parts, *head_parts(traced)),
        opened=1 + stage,
        block_title=f"First block of stage {stage}",
        block_input=times(*traced.inputs[name]),
        block=_residual_block(model, traced, name),
    )


def _residual_block(
    model: models.ResNet, traced: Traced, block: str
) -> tuple[Part | Branch, ...]:
    num_layers = 3 if model.bottleneck else 2
    parts = tuple(
        convolution_part(
            traced,
            f"{block}/conv{i}",
            norm=f"{block}/norm{i}",
            after="ReLU" if i < num_layers else "",
        )
        for i in range(1, num_layers + 1)
    )
    shortcut = None
    if f"{block}/shortcut_conv" in traced.outputs:
        shortcut = convolution_part(
            traced, f"{block}/shortcut_conv", norm=f"{block}/shortcut_norm"
        )
    output = times(*traced.outputs[block])
    return Branch(parts, shortcut), Part("ReLU", (), "norm", output)
