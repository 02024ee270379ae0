"""What this machine computes with: the only place that decides it.

Every decision follows from the platform and the number of devices, or from the device
that `computing_for` names. Models ask here for the implementation of a product, a
convolution or attention; `training` asks for the dtype "auto", the number of
microbatches, the steps per dispatch and whether loops are written out. Numbers come out
alike up to rounding, except that each microbatch draws dropout of its own.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array

from vit_jax.models.cpu import convolution, products

# Multiply-accumulates of one microbatch's forward pass below which splitting a batch
# does not pay: a few tenths of a second on two cores.
MIN_MICROBATCH_MACS = 8e9

# Platform and compute capability of a device that this machine does not have, or None.
_OTHER_DEVICE = contextvars.ContextVar("device", default=None)


@contextlib.contextmanager
def computing_for(platform: str, compute_capability: str = "") -> Iterator[None]:
    """A context in which every decision is that of a machine with another device.

    Programs for that device are built in it. They can be compiled, but not run.

    Args:
      platform: "cpu", "gpu" or "tpu".
      compute_capability: of an NVIDIA GPU, "9.0" for example.
    """
    token = _OTHER_DEVICE.set((platform, compute_capability))
    try:
        yield
    finally:
        _OTHER_DEVICE.reset(token)


def platform() -> str:
    """ "cpu", "gpu" or "tpu"."""
    other = _OTHER_DEVICE.get()
    return other[0] if other else jax.default_backend()


def is_single_cpu() -> bool:
    """Whether a single CPU device computes everything."""
    return platform() == "cpu" and jax.device_count() == 1


def dot_general() -> Callable[..., Array] | None:
    """The `dot_general` of dense layers; None is `jax.lax.dot_general`.

    On a CPU it multiplies two matrices, see `cpu.products.flat_dot_general`.
    """
    return products.flat_dot_general if platform() == "cpu" else None


def folds_norms() -> bool:
    """Whether a dense layer takes over the scale and bias of the norm before it.

    On a GPU this spares `vit_cifar` a seventh of its step's bytes, by forecast
    (docs/forecast.md). A CPU computes the norm as it stands.
    """
    return platform() == "gpu"


def projects_apart() -> bool:
    """Whether queries, keys and values are three products where one would do.

    Fused attention reads three arrays, so that a GPU is spared copies: a step of
    `vit_cifar` takes 14.9 ms in place of 15.6, by forecast (docs/forecast.md).
    """
    return platform() == "gpu"


def conv_general_dilated() -> Callable[..., Array] | None:
    """The convolution of a ResNet; None is `jax.lax.conv_general_dilated`.

    On a single CPU it is `cpu.convolution.on_cpu`. Several devices would have to
    exchange examples for that.
    """
    return convolution.on_cpu if is_single_cpu() else None


@jax.custom_jvp
def with_stored_gradient(x: Array) -> Array:
    """`x`, whose gradient a CPU stores before anything reads it.

    Otherwise XLA (JAX 0.10) computes the elementwise steps that lead to that gradient,
    through dropout and LayerNorm for example, anew for each product and sum that reads
    it. The step of a ViT with dropout takes 0.8 times as long (experiments/benchmarks).
    """
    return x


@with_stored_gradient.defjvp
def _jvp(primals, tangents):
    # The transpose of the barrier, which computes the gradient, is a barrier again.
    return primals[0], stored(tangents[0])


def stored(tree: Any) -> Any:
    """`tree`, whose arrays a CPU stores before anything reads them.

    What reads them then does not change how they are rounded. On a GPU this would take
    a kernel for each array, and nothing there promises the same bits in two programs.
    """
    return jax.lax.optimization_barrier(tree) if platform() == "cpu" else tree


def attention_implementation(asked: str, dtype: DTypeLike, head_width: int) -> str:
    """`asked`, or "plain" in place of a "cudnn" that cannot run here.

    NVIDIA's fused kernel needs 16-bit numbers, a GPU of compute capability 8.0 or
    higher, and heads whose width is a multiple of 8 and at most 128, or 256 from 9.0
    on. A run that was trained with it can thus be loaded on any machine.
    """
    capability = _compute_capability()
    can_fuse = jnp.dtype(dtype).itemsize == 2 and capability >= 8.0
    can_fuse &= head_width % 8 == 0 and head_width <= (256 if capability >= 9 else 128)
    return "plain" if asked == "cudnn" and not can_fuse else asked


def _compute_capability() -> float:
    """Of an NVIDIA GPU; 0.0 of all other devices."""
    if platform() != "gpu":
        return 0.0
    other = _OTHER_DEVICE.get()
    text = other[1] if other else jax.devices()[0].compute_capability
    try:
        return float(text)
    except ValueError:  # AMD's GPUs have names like "gfx90a" instead.
        return 0.0


def auto_dtype() -> str:
    """The dtype that `config.model.dtype="auto"` stands for.

    NVIDIA's GPUs multiply bfloat16 from compute capability 8.0 on, and float16 from 7.0
    on. A T4 (7.5) computes bfloat16 as float32, with which a step of `vit_cifar_fast`
    would take it four times as long, by forecast (docs/forecast.md).
    """
    if platform() == "cpu" or 0 < (capability := _compute_capability()) < 7:
        return "float32"
    return "float16" if 0 < capability < 8 else "bfloat16"


def num_microbatches(batch_size: int, macs_per_image: int) -> int:
    """The number of microbatches that computes a ViT's batch fastest.

    On a single CPU it is up to 4, because the caches then hold a microbatch's
    activations: a step of ViT-Tiny takes 0.8 to 0.9 times as long
    (experiments/benchmarks). A small batch stays whole, since compiling several
    microbatches would take longer than they save.

    Args:
      batch_size: images per optimizer step.
      macs_per_image: multiply-accumulates of one image's forward pass.
    """
    if not is_single_cpu():
        return 1
    macs = batch_size * macs_per_image
    fitting = [
        n for n in (2, 4) if batch_size % n == 0 and macs >= n * MIN_MICROBATCH_MACS
    ]
    return max(fitting, default=1)


def max_steps_per_dispatch() -> int:
    """The most optimizer steps that one compiled program should do.

    One on a CPU, where a dispatch costs microseconds and a convolution inside a loop is
    slow, see `unrolls_loops`. On an accelerator enough to hide the host's work, and few
    enough for a signal to be answered soon.
    """
    return 1 if platform() == "cpu" else 100


def groups_leaves() -> bool:
    """Whether an optimizer should compute parameters of one shape together.

    On a GPU each sum or product of a small matrix waits for its launch. On a CPU the
    products of a batch would be computed one after another by a slower function.
    """
    return platform() != "cpu"


def unrolls_loops() -> bool:
    """Whether a loop that contains a model should be written out.

    On a CPU, XLA (JAX 0.10) runs a convolution inside a loop about 40 times slower,
    even if the loop has a single iteration.
    """
    return platform() == "cpu"


@contextlib.contextmanager
def drawing_by_kernel() -> Iterator[None]:
    """A context in which random bits on a GPU are drawn by a kernel made for it.

    It is for the initialisation. Written out for each of many arrays, threefry is
    nearly all of that program, which takes ten times as long to compile
    (docs/forecast.md). The bits are the same. Other platforms have no such kernel.
    """
    name = "jax_threefry_gpu_kernel_lowering"
    before = getattr(jax.config, name)
    jax.config.update(name, platform() == "gpu")
    try:
        yield
    finally:
        jax.config.update(name, before)


def jit(function: Callable, **options: Any) -> Any:
    """`jax.jit` with the compiler options that suit a whole model on this machine."""
    own = compiler_options() if platform() == "cpu" else {}
    return jax.jit(function, compiler_options=own, **options)


def jit_initialisation(function: Callable, **options: Any) -> Callable:
    """`jax.jit` for a function that draws a model's initial arrays and is called once.

    On a CPU most of its time is compilation, so LLVM optimizes less: the initialisation
    of ResNet-18 then takes a quarter of the time, and its numbers are the same up to
    rounding.
    """
    own = {"xla_backend_optimization_level": 1} if platform() == "cpu" else {}
    return drawing_by_kernel()(jax.jit(function, compiler_options=own, **options))


@functools.cache
def compiler_options() -> dict[str, str]:
    """The compiler options of `jit` on a CPU; there are none on other machines.

    They keep convolutions from YNNPACK (JAX 0.10), which runs one of 32x32 pixels and
    64 channels on a single core: a step of ResNet-18 on two cores takes 0.8 times as
    long without it. And they keep XLA from removing `jax.lax.optimization_barrier`
    before it decides what to compute together, so that a barrier stores an array which
    would otherwise be computed anew wherever it is read: with those of `cpu/`, the step
    of `vit_laptop.py` takes 0.7 times as long (experiments/benchmarks). JAX 0.12 is as
    fast without them. There are none for a version of XLA that does not know them.
    """
    options = {
        # What XLA leaves to YNNPACK; by default this includes convolutions.
        "xla_cpu_experimental_ynn_fusion_type": (
            "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"
        ),
        "xla_disable_hlo_passes": "cse_barrier_expander",  # The pass removes barriers.
    }
    try:
        jax.jit(lambda: jnp.zeros(()), compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return {}
    return options
