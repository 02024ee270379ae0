"""What a kernel computes: matrix products, convolutions, and everything else."""

import dataclasses
import math
import re

from experiments.forecasting.hlo import Instruction, Kernel, Shape

# Scalar operations that take several instructions on a GPU; others take one.
_COSTS = {
    "divide": 8,
    "exponential": 4,
    "exponential-minus-one": 8,
    "log": 4,
    "log-plus-one": 8,
    "rsqrt": 4,
    "sqrt": 4,
    "tanh": 8,
    "erf": 20,
    "power": 16,
    "sine": 16,
    "cosine": 16,
    "remainder": 16,
}
# These compute nothing, or are counted elsewhere: products by their FLOPs, a fusion by
# what is inside, and a rotation by its "or" and not by its shifts.
_NO_WORK = {
    "parameter", "constant", "get-tuple-element", "tuple", "bitcast", "bitcast-convert",
    "broadcast", "reshape", "transpose", "slice", "concatenate", "iota", "copy", "pad",
    "dynamic-slice", "gather", "reverse", "dynamic-update-slice", "shift-left",
    "shift-right-logical", "dot", "convolution", "fusion", "custom-call",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Work:
    """What one launch of a kernel computes.

    Attributes:
      product_flops: of matrix products and convolutions, two for each multiplication
        and addition, by the type of their factors.
      scalar_ops: all other operations, in instructions of one lane.
      random_ops: those of `scalar_ops` on unsigned integers, which are random bits.
      is_convolution: whether it contains a convolution.
    """

    product_flops: dict[str, int]
    scalar_ops: int
    random_ops: int
    is_convolution: bool


def work(kernel: Kernel) -> Work:
    """What a kernel computes."""
    flops: dict[str, int] = {}
    scalar = random = 0
    is_convolution = False
    known = {one.name: one for one in kernel.operands} | kernel.body
    for one in kernel.body.values():
        inputs = [shape for name in one.operands for shape in known[name].shapes[:1]]
        if count := _product_flops(one, inputs):
            flops[inputs[0].dtype] = flops.get(inputs[0].dtype, 0) + count
            is_convolution |= "conv" in one.opcode + one.custom_target
        ops = _scalar_ops(one, inputs)
        scalar += ops
        if one.shapes and one.shapes[0].dtype in ("u32", "u64"):
            random += ops
    return Work(flops, scalar, random, is_convolution)


def _scalar_ops(one: Instruction, inputs: list[Shape]) -> int:
    if one.opcode in _NO_WORK:
        return 0
    if one.opcode in ("reduce", "reduce-window", "sort") and inputs:
        return inputs[0].size
    # Integers have half the lanes.
    factor = 2 if one.shapes and one.shapes[0].dtype[0] in "su" else 1
    size = one.shapes[0].size if one.shapes else 0
    return size * _COSTS.get(one.opcode, 1) * factor


def _product_flops(one: Instruction, inputs: list[Shape]) -> int:
    if one.opcode == "dot":
        summed = one.integers("lhs_contracting_dims")
        return _matrix_flops(one, summed, inputs)
    if one.opcode == "convolution":
        return _convolution_flops(one, "", inputs)
    name = one.custom_target
    if name.startswith("__cublas"):
        found = re.search(r'"lhs_contracting_dimensions":\[([^\]]*)\]', one.rest)
        summed = [int(n) for n in re.findall(r"\d+", found[1])] if found else []
        return _matrix_flops(one, summed, inputs)
    if name.startswith("__cudnn$conv"):
        return _convolution_flops(one, name, inputs)
    if name.startswith("__cudnn$fmha"):
        return _attention_flops(name, inputs)
    return 0


def _matrix_flops(one: Instruction, summed: list[int], inputs: list[Shape]) -> int:
    """FLOPs of a product that sums over the axes `summed` of its first factor."""
    return 2 * one.shapes[0].size * math.prod(inputs[0].dims[axis] for axis in summed)


def _convolution_flops(one: Instruction, name: str, inputs: list[Shape]) -> int:
    """Each output, or derivative of one, takes a filter's numbers for one channel."""
    kernel_labels = re.search(r"dim_labels=\w+_(\w+)->", one.rest)
    axis = kernel_labels[1].index("o") if kernel_labels else 0
    if "BackwardFilter" in name:
        outputs, filters = inputs[1], one.shapes[0]
    elif "BackwardInput" in name:
        outputs, filters = inputs[0], inputs[1]
    else:
        outputs, filters = one.shapes[0], inputs[1]
    return 2 * outputs.size * filters.size // filters.dims[axis]


def _attention_flops(name: str, inputs: list[Shape]) -> int:
    """Two products forward and five backward, [batch, tokens, heads, head width]."""
    query, key = inputs[0], inputs[1]
    products = 5 if "Backward" in name else 2
    return products * 2 * query.size * max(key.dims[1], key.dims[2])
