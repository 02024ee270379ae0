"""Convolutions as a CPU computes them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.cpu.convolutions import assert_gradients_agree
from vit_jax.models import ResNet, backend, init_variables
from vit_jax.models.cpu import winograd
from vit_jax.models.cpu.convolution import by_chunks, on_cpu


@pytest.mark.slow
@pytest.mark.parametrize(
    "stride, dtype, tolerance",
    [(1, np.float32, 1e-5), (2, np.float32, 1e-5), (1, jnp.bfloat16, 0.02)],
)
def test_gradients_by_chunks_are_the_gradients(stride, dtype, tolerance):
    # The batch is several chunks and a smaller last one.
    x = jax.random.normal(jax.random.key(0), (2, 70, 6, 6, 3), dtype)
    kernel = jax.random.normal(jax.random.key(1), (2, 3, 3, 3, 4), dtype)
    assert_gradients_agree(by_chunks, x, kernel, stride, tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(
    "side, kernel_side, stride, channels, dtype, fast",
    [
        (4, 3, 1, (128, 130), np.float32, True),
        (4, 3, 1, (128, 64), np.float32, False),
        (6, 3, 1, (128, 128), np.float32, False),
        (4, 3, 2, (128, 128), np.float32, False),
        (4, 1, 1, (128, 128), np.float32, False),
        (4, 1, 2, (5, 6), np.float32, False),
        (4, 1, 1, (5, 6), jnp.bfloat16, False),
        (4, 3, 1, (128, 128), jnp.bfloat16, False),
    ],
)
def test_a_cpu_convolves_by_winograd_where_it_can(
    side, kernel_side, stride, channels, dtype, fast, monkeypatch
):
    calls, original = [], winograd.convolve

    def counted(x, kernel):
        calls.append(x.shape)
        return original(x, kernel)

    monkeypatch.setattr(winograd, "convolve", counted)
    x = jax.random.normal(jax.random.key(0), (2, 2, side, side, channels[0]), dtype)
    shape = (2, kernel_side, kernel_side, *channels)
    kernel = jax.random.normal(jax.random.key(1), shape, dtype)
    tolerance = 0.03 if dtype == jnp.bfloat16 else 2e-5
    assert_gradients_agree(on_cpu, x, kernel, stride, tolerance)
    assert bool(calls) == fast


@pytest.mark.slow
def test_a_single_cpu_takes_gradients_by_chunks(monkeypatch):
    model = ResNet(num_classes=5, stage_sizes=(1, 1), width=4)
    images = jax.random.normal(jax.random.key(1), (40, 8, 8, 3))
    variables = init_variables(model, jax.random.key(0), images.shape[1:])

    def count_convolutions():
        def loss(params):
            changed = variables | {"params": params}
            logits, _ = model.apply(
                changed, images, train=True, mutable=["batch_stats"]
            )
            return (logits**2).sum()

        jaxpr = jax.make_jaxpr(jax.grad(loss))(variables["params"])
        return str(jaxpr).count("conv_general_dilated[")

    before = count_convolutions()  # These tests have eight devices.
    monkeypatch.setattr(backend, "is_single_cpu", lambda: True)
    # The shortcut and its two gradients are products. The gradients of the 5 other
    # kernels take a second and a third chunk, and there is the gradient of the images,
    # which nothing uses.
    assert count_convolutions() == before - 3 + 2 * 5 + 1
