"""What each implementation of attention costs, alone, on the device it runs on.

`python -m experiments.benchmark --attention` prints, for each ViT's shape, milliseconds
of one layer's product of queries, keys and values, forward and backward.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from experiments import timing
from experiments.jax_step import load_config
from vit_jax import models

NAME = "attention"
REPEATS_IN_DISPATCH = 10


def plain(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """As `models.attention.SelfAttention` computes it, without its options."""
    logits = jnp.einsum(
        "bqhd,bkhd->bhqk", query, key, preferred_element_type=jnp.float32
    )
    weights = jax.nn.softmax(logits * query.shape[-1] ** -0.5)
    return jnp.einsum("bhqk,bkhd->bqhd", weights.astype(query.dtype), value)


IMPLEMENTATIONS = {"plain": plain} | {
    name: functools.partial(jax.nn.dot_product_attention, implementation=name)
    for name in ("xla", "cudnn")
}


def make_run(attend, query):
    """A function that runs forward and backward ten times, one after the other."""

    @jax.jit
    def run(query):
        def body(_, query):
            out, backward = jax.vjp(lambda q: attend(q, q, q), query)
            # Kept near its size, and in need of both passes.
            return (out + backward(out)[0]) / 4

        return jax.lax.fori_loop(0, REPEATS_IN_DISPATCH, body, query)

    return lambda: run(query).block_until_ready()


def measure(
    names: Sequence[str], batch_size: int, repeats: int, overrides: Sequence[str]
) -> dict[str, Any]:
    """Prints a line for each ViT and implementation; one that cannot run says why.

    Returns:
      The machine, and for each ViT its shape and each implementation's seconds and CPU
      seconds of one product, or its error.
    """
    machine = timing.describe_machine()
    print(
        f"{machine['device']}, JAX {machine['versions']['jax']}, batch {batch_size}, "
        f"load {machine['load_average'][0]:.1f}"
    )
    vits = {}
    for name in names:
        settings = load_config(name, batch_size, overrides).model
        dtype = settings.dtype
        if dtype == "auto":
            dtype = "float32" if machine["platform"] == "cpu" else "bfloat16"
        model = models.make_model(
            settings, num_classes=10, image_shape=(32, 32, 3), dtype=dtype
        )
        if isinstance(model, models.ViT):
            vits[name] = _measure_vit(name, model, batch_size, dtype, repeats)
    return machine | {"batch_size": batch_size, "models": vits}


def _measure_vit(
    name: str, model: models.ViT, batch_size: int, dtype: str, repeats: int
) -> dict[str, Any]:
    num_tokens = (32 // model.patch_size) ** 2 + int(model.pooling == "cls")
    shape = batch_size, num_tokens, model.num_heads, model.width // model.num_heads
    query = jax.random.normal(jax.random.key(0), shape, dtype)
    result: dict[str, Any] = {"shape": shape, "dtype": dtype}
    runs = {}
    for implementation, attend in IMPLEMENTATIONS.items():
        run = make_run(attend, query)
        try:
            run()
        except (ValueError, NotImplementedError, RuntimeError) as error:
            reason = str(error).partition("\n")[0][:80]
            print(f"{name:12} {implementation:6} cannot run: {reason}")
            result[implementation] = {"error": reason}
        else:
            runs[implementation] = run
    wall, busy = timing.alternate(runs, repeats)
    for implementation in runs:
        seconds, cpu_seconds = (
            timing.describe([s / REPEATS_IN_DISPATCH for s in times[implementation]])
            for times in (wall, busy)
        )
        result[implementation] = {"seconds": seconds, "cpu_seconds": cpu_seconds}
        print(
            f"{name:12} {implementation:6} {1e3 * seconds['median']:9.3f} ms "
            f"({1e3 * seconds['min']:.3f}-{1e3 * seconds['max']:.3f}), CPU time "
            f"{1e3 * cpu_seconds['median']:.3f} ms, {dtype}",
            flush=True,
        )
    return result
