"""Shapes and parameters of a network, and the parts that all networks have.

They are read from the module, which JAX traces without computing anything.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from vit_jax import models
from vit_jax.figures.architecture import Part
from vit_jax.models import backend

Shape = tuple[int, ...]


class Traced:
    """Shapes of the input and output of every submodule, and of all parameters.

    Attributes:
      inputs, outputs: for one image, by path such as "block0/attention/qkv"; "" is the
        model.
      params: arrays without values.
    """

    def __init__(self, model: nn.Module, image_shape: tuple[int, int, int]):
        self.inputs: dict[str, Shape] = {}
        self.outputs: dict[str, Shape] = {}

        def record(call, arguments, options, context):
            output = call(*arguments, **options)
            if context.method_name == "__call__":
                path = "/".join(context.module.path)
                self.inputs[path] = arguments[0].shape[1:]
                self.outputs[path] = output.shape[1:]
            return output

        # With intermediates, attention is computed in the way that every machine has.
        apply = functools.partial(model.apply, train=False, mutable=["intermediates"])
        images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
        # On a GPU, norms would be parts of the layers after them.
        with backend.computing_for("tpu"):
            variables = models.variable_shapes(model, image_shape)
            with nn.intercept_methods(record):
                jax.eval_shape(apply, variables, images)
        self.params = variables["params"]

    def count(self, *paths: str) -> int:
        """Number of parameters below all of `paths`."""
        return sum(models.count_params(self._below(path)) for path in paths)

    def kernel(self, path: str) -> Shape:
        """Shape of a layer's kernel."""
        return self._below(path)["kernel"].shape

    def _below(self, path: str) -> Any:
        node = self.params
        for name in path.split("/"):
            node = node.get(name, {})
        return node


def times(*sizes: int | str) -> str:
    """Sizes as text, "32 × 32 × 3"."""
    return " × ".join(map(str, sizes))


def tokens(shape: Shape) -> str:
    """A shape whose first axis is the sequence, "65 tokens × 192"."""
    return times(f"{shape[0]} tokens", *shape[1:])


def image_part(traced: Traced) -> Part:
    """The input."""
    return Part("Image", (), "data", times(*traced.inputs[""]))


def head_parts(traced: Traced) -> tuple[Part, Part]:
    """The head, and the classes that are its output."""
    (width,), (classes,) = traced.inputs["head"], traced.outputs["head"]
    name, lines = "Head", (f"linear, {width} → {classes}",)
    if "distillation_head" in traced.params:
        name, lines = "Two heads", (f"linear, {width} → {classes} each", "their mean")
    num_params = traced.count("head", "distillation_head")
    head = Part(name, lines, "head", f"{classes} logits", num_params)
    return head, Part("Classes", (f"softmax: {classes} probabilities",), "data", "")


def convolution_part(
    traced: Traced, path: str, *, norm: str = "", after: str = ""
) -> Part:
    """A convolution, the BatchNorm of the path `norm`, and what comes `after`."""
    before, output = traced.inputs[path], traced.outputs[path]
    rows, columns, channels_in, channels_out = traced.kernel(path)
    stride = -(-before[0] // output[0])  # an odd side is rounded up
    change = f"{channels_in} → {channels_out} channels"
    change += f", stride {stride}" if stride > 1 else ""
    following = ", ".join(filter(None, ("BatchNorm" if norm else "", after)))
    return Part(
        f"{rows} × {columns} convolution",
        tuple(filter(None, (change, following))),
        "convolution",
        times(*output),
        traced.count(*filter(None, (path, norm))),
    )
