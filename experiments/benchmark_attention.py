"""What each implementation of attention costs, alone, on the device it runs on.

`python -m experiments.benchmark --attention` prints, for each ViT's shape, milliseconds
of one layer's product of queries, keys and values, forward and backward.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from experiments import timing
from experiments.jax_step import load_config
from vit_jax import models

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


def print_table(names: list[str], batch_size: int, repeats: int) -> None:
    """A line for each ViT and implementation; one that cannot run says why."""
    machine = timing.describe_machine()
    dtype = "float32" if machine["platform"] == "cpu" else "bfloat16"
    print(
        f"{machine['device']}, JAX {machine['versions']['jax']}, {dtype}, "
        f"batch {batch_size}, load {machine['load_average'][0]:.1f}"
    )
    for name in names:
        model = models.make_model(
            load_config(name, batch_size, []).model, num_classes=10,
            image_shape=(32, 32, 3), dtype=dtype,
        )  # fmt: skip
        if not isinstance(model, models.ViT):
            continue
        num_tokens = (32 // model.patch_size) ** 2 + int(model.pooling == "cls")
        shape = batch_size, num_tokens, model.num_heads, model.width // model.num_heads
        query = jax.random.normal(jax.random.key(0), shape, dtype)
        runs = {}
        for implementation, attend in IMPLEMENTATIONS.items():
            run = make_run(attend, query)
            try:
                run()
            except Exception as error:
                reason = str(error).partition("\n")[0][:80]
                print(f"{name:12} {implementation:6} cannot run: {reason}")
            else:
                runs[implementation] = run
        wall, busy = timing.alternate(runs, repeats)
        for implementation in runs:
            median, low, high, cpu = (
                1e3 * value / REPEATS_IN_DISPATCH
                for value in (
                    *np.percentile(wall[implementation], (50, 0, 100)),
                    np.median(busy[implementation]),
                )
            )
            print(
                f"{name:12} {implementation:6} {median:9.3f} ms ({low:.3f}-{high:.3f})"
                f", CPU time {cpu:.3f} ms",
                flush=True,
            )
