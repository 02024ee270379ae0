"""What this machine computes a model with."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from vit_jax.models.cpu.convolution import on_cpu

# What XLA leaves to YNNPACK on a CPU. By default also convolutions.
_YNN_OPTION = "xla_cpu_experimental_ynn_fusion_type"
_YNN_FUSIONS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"


@functools.cache
def compiler_options() -> dict[str, str]:
    """`compiler_options` of `jax.jit` for a whole model on this machine.

    On a CPU they keep convolutions from YNNPACK (JAX 0.10), which runs one of 32x32
    pixels and 64 channels on a single core: a step of ResNet-18 on two cores takes 0.8
    times as long without it (experiments/benchmarks). Elsewhere, and with an XLA that
    has no such option, there are none.
    """
    if jax.default_backend() != "cpu":
        return {}
    options = {_YNN_OPTION: _YNN_FUSIONS}
    try:
        jax.jit(lambda: jnp.zeros(()), compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return {}
    return options


def convolution() -> Callable[..., Array]:
    """What `nn.Conv` should compute with in training on this machine.

    On a single CPU `on_cpu`. Not on several devices, which would have to exchange
    examples for it.
    """
    if jax.default_backend() == "cpu" and jax.device_count() == 1:
        return on_cpu
    return jax.lax.conv_general_dilated
