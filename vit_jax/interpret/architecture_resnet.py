"""The parts of a ResNet."""

from vit_jax import models
from vit_jax.figures.architecture import Architecture, Branch, Part
from vit_jax.interpret.traced import (
    Traced,
    convolution_part,
    head_parts,
    image_part,
    times,
)


def describe_resnet(model: models.ResNet, traced: Traced) -> Architecture:
    """The parts of a ResNet, and one of its residual blocks."""
    stem = convolution_part(traced, "stem_conv", norm="stem_norm", after="ReLU")
    parts = [image_part(traced), stem]
    for stage, num_blocks in enumerate(model.stage_sizes, start=1):
        blocks = [f"stage{stage}_block{i + 1}" for i in range(num_blocks)]
        before, output = traced.inputs[blocks[0]], traced.outputs[blocks[-1]]
        stride = before[0] // output[0]
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
            traced,
            f"{block}/shortcut_conv",
            norm=f"{block}/shortcut_norm",
        )
    output = times(*traced.outputs[block])
    return Branch(parts, shortcut), Part("ReLU", (), "norm", output)
