"""Multiply-accumulates of a forward pass, counted in what JAX traces."""

import functools
import math

import jax
from flax import linen as nn
from jax.extend.core import Jaxpr

from vit_jax.models import backend
from vit_jax.models.variables import example_inputs, variable_shapes


@functools.cache
def count_macs(model: nn.Module, image_shape: tuple[int, int, int]) -> int:
    """Multiply-accumulates of one forward pass of one image [height, width, channels].

    The count includes convolutions (zero padding as well) and products of matrices. It
    excludes everything element by element, such as biases, normalisation, activations,
    softmax and averages. One multiply-accumulate is two floating-point operations. An
    autoencoder encodes the visible patches only. The body of a loop whose length is not
    known in advance counts once.

    JAX's own `cost_analysis` counts otherwise (JAX 0.10): the body of every loop once,
    operations element by element too, and convolutions without zero padding.
    """

    def forward(variables, *inputs):
        return model.apply(variables, *inputs, train=False)

    # The kernels for a CPU take other products for the same result.
    with backend.computing_for("tpu"):
        variables = variable_shapes(model, image_shape)
        inputs = example_inputs(model, image_shape)
        return _count(jax.make_jaxpr(forward)(variables, *inputs).jaxpr)


def _count(jaxpr: Jaxpr) -> int:
    """Recurses into sub-jaxprs; a scan's body counts `length` times."""
    macs = 0
    for equation in jaxpr.eqns:
        parameters = equation.params
        # Some have no result, such as jax.debug.print.
        out_size = sum(out.aval.size for out in equation.outvars[:1])
        if equation.primitive.name == "dot_general":
            left = equation.invars[0].aval
            (contracted, _), _ = parameters["dimension_numbers"]
            macs += out_size * math.prod(left.shape[axis] for axis in contracted)
        elif equation.primitive.name == "conv_general_dilated":
            kernel = equation.invars[1].aval
            channels_out = kernel.shape[parameters["dimension_numbers"].rhs_spec[0]]
            macs += out_size * kernel.size // channels_out
        # The jaxprs of functions, branches and loops.
        inner = [getattr(x, "jaxpr", x) for x in jax.tree.leaves(parameters)]
        repeats = parameters["length"] if equation.primitive.name == "scan" else 1
        macs += repeats * sum(_count(x) for x in inner if isinstance(x, Jaxpr))
    return macs
