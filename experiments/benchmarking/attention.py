"""The cost of one layer of self-attention by each of its implementations.

`python -m experiments.benchmark --attention` prints, for each ViT, the milliseconds of
its first `SelfAttention`, projections included, forward and backward, and how far the
results are from those of "plain" in float32. Dropout and local attention are left out,
since only the implementation "plain" has them.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from experiments.benchmarking import timing
from experiments.benchmarking.jax_step import load_config
from vit_jax import models
from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.models.attention import SelfAttention
from vit_jax.models.block_settings import BlockSettings, block_settings

IMPLEMENTATIONS = ("plain", "xla", "cudnn")
REPEATS_IN_DISPATCH = 10
IMAGE_SHAPE = (32, 32, 3)


def num_tokens(model: models.ViT) -> int:
    """The number of tokens in the first block, from the attention weights it sows."""
    init = functools.partial(model.init, mutable=True)
    variables = jax.eval_shape(init, jax.random.key(0), jnp.zeros((1, *IMAGE_SHAPE)))
    (weights,) = jax.tree.leaves(variables["intermediates"]["block0"])
    return weights.shape[-1]


def make_run(layer: SelfAttention, tokens: jax.Array) -> Callable[[], jax.Array]:
    """A function that runs forward and backward ten times, one after the other."""
    variables = layer.init(jax.random.key(0), tokens, train=False)

    def apply(params, tokens):
        return layer.apply({"params": params}, tokens, train=True)

    @backend.jit
    def run(params, tokens):
        def body(_, carry):
            params, tokens = carry
            out, backward = jax.vjp(apply, params, tokens)
            params_gradient, tokens_gradient = backward(out)
            # Each pass needs both results of the one before. The small factor keeps
            # the numbers near their size.
            step = jax.tree.map(
                lambda x, dx: (x - 1e-6 * dx).astype(x.dtype), params, params_gradient
            )
            return step, (tokens - 1e-6 * tokens_gradient).astype(tokens.dtype)

        return jax.lax.fori_loop(0, REPEATS_IN_DISPATCH, body, (params, tokens))

    return lambda: jax.block_until_ready(run(variables["params"], tokens))


def relative_errors(layer: SelfAttention, tokens: jax.Array) -> dict[str, float]:
    """How far a layer's numbers are from those of "plain" in float32.

    Returns:
      |x - reference| / |reference|, by the Euclidean norm, of the outputs, and of the
      gradients of the mean of their squares by parameters and tokens together.
    """
    variables = layer.init(jax.random.key(0), tokens, train=False)

    def numbers(layer, tokens):
        def loss(variables, tokens):
            outputs = layer.apply(variables, tokens, train=True).astype("float32")
            return (outputs**2).mean(), outputs

        gradient = backend.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
        (_, outputs), gradients = gradient(variables, tokens)
        return outputs, ravel_pytree(gradients)[0].astype("float32")

    plain = dataclasses.replace(
        layer.settings, attention_implementation="plain", dtype="float32"
    )
    with jax.default_matmul_precision("highest"):
        expected = numbers(SelfAttention(plain), tokens.astype("float32"))
    found = numbers(layer, tokens)
    return {
        name: float(jnp.linalg.norm(x - y) / jnp.linalg.norm(y))
        for name, x, y in zip(("outputs", "gradients"), found, expected, strict=True)
    }


def measure(
    names: Sequence[str], batch_size: int, repeats: int, overrides: Sequence[str]
) -> dict[str, Any]:
    """Prints a line for each ViT and implementation; one that cannot run says why.

    Returns:
      The machine, and for each ViT the shape of its tokens and each implementation's
      seconds and CPU seconds of one layer and its `relative_errors` on the first 32
      examples, or why it cannot run.
    """
    machine = timing.describe_machine()
    print(
        f"{machine['device']}, JAX {machine['versions']['jax']}, batch {batch_size}, "
        f"load {machine['load_average'][0]:.1f}"
    )
    vits = {}
    for name in names:
        config = load_config(name, batch_size, overrides)
        settings = config.model
        dtype = backend.auto_dtype() if settings.dtype == "auto" else settings.dtype
        model = models.make_model(
            settings, num_classes=10, image_shape=IMAGE_SHAPE, dtype=dtype
        )
        if isinstance(model, models.ViT):
            shape = config.batch_size, num_tokens(model), model.width
            tokens = jax.random.normal(jax.random.key(0), shape, dtype)
            vits[name] = _measure_layer(name, block_settings(model), tokens, repeats)
    if not vits:
        raise UserError(
            f"--models is {','.join(names)}, of which none has attention; name a ViT."
        )
    return machine | {"batch_size": config.batch_size, "models": vits}


def _measure_layer(
    name: str, settings: BlockSettings, tokens: jax.Array, repeats: int
) -> dict[str, Any]:
    result: dict[str, Any] = {"shape": tokens.shape, "dtype": str(tokens.dtype)}
    runs = {}
    head_width = tokens.shape[-1] // settings.num_heads
    for implementation in IMPLEMENTATIONS:
        chosen = SelfAttention(
            dataclasses.replace(
                settings,
                attention_implementation=implementation,
                attention_dropout=0.0,
                dropout=0.0,
                local_attention=False,
            )
        )
        try:
            if implementation != backend.attention_implementation(
                implementation, tokens.dtype, head_width
            ):
                raise ValueError("this device has no such kernel for these heads")
            run = make_run(chosen, tokens)
            run()
            errors = relative_errors(chosen, tokens[:32])
        except (ValueError, NotImplementedError, RuntimeError) as error:
            reason = str(error).partition("\n")[0][:80]
            print(f"{name:12} {implementation:6} cannot run: {reason}")
            result[implementation] = {"error": reason}
        else:
            runs[implementation] = run
            result[implementation] = {"relative_errors": errors}
    wall, busy = timing.alternate(runs, repeats)
    for implementation in runs:
        seconds, cpu_seconds = (
            timing.describe([s / REPEATS_IN_DISPATCH for s in times[implementation]])
            for times in (wall, busy)
        )
        result[implementation] |= {"seconds": seconds, "cpu_seconds": cpu_seconds}
        errors = result[implementation]["relative_errors"]
        print(
            f"{name:12} {implementation:6} {1e3 * seconds['median']:9.3f} ms "
            f"({1e3 * seconds['min']:.3f}-{1e3 * seconds['max']:.3f}), CPU time "
            f"{1e3 * cpu_seconds['median']:.3f} ms, {tokens.dtype}, error "
            f"{errors['outputs']:.1e}, of gradients {errors['gradients']:.1e}",
            flush=True,
        )
    return result
