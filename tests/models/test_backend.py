"""What a machine computes with is decided in one place."""

import functools
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from vit_jax import models
from vit_jax.models import backend
from vit_jax.models.cpu.convolution import on_cpu
from vit_jax.models.cpu.products import flat_dot_general

PACKAGE = pathlib.Path(vit_jax.__file__).parent


def test_nothing_else_asks_for_the_machine():
    asks = re.compile(
        r"default_backend|\bdevice_count\(|\.platform\b(?!\()|compiler_options"
    )
    root = PACKAGE.parent
    files = [*PACKAGE.rglob("*.py"), *(root / "experiments").rglob("*.py")]
    files += (root / "configs").glob("*.py")
    # `sys.platform` is the operating system.
    texts = {p: p.read_text().replace("sys.platform", "") for p in files}
    found = {str(p.relative_to(root)) for p in files if asks.search(texts[p])}
    # They only name the platform, for a person.
    shown = {
        "vit_jax/training/summary.py",
        "vit_jax/runs/environment.py",
        "experiments/first_lighting/first_steps.py",
    }
    assert found - shown == {"vit_jax/models/backend.py", "vit_jax/parallel/mesh.py"}


def test_no_private_interface_of_jax_is_used():
    for path in PACKAGE.rglob("*.py"):
        assert not re.search(r"jax\._src|jax\.lib", path.read_text()), path


@pytest.mark.parametrize(
    "platform, single, product, convolution, dtype, steps, unrolls",
    [
        ("cpu", True, flat_dot_general, on_cpu, "float32", 1, True),
        ("cpu", False, flat_dot_general, None, "float32", 1, True),
        ("gpu", False, None, None, "bfloat16", 100, False),
    ],
)
def test_the_platform_decides(
    monkeypatch, platform, single, product, convolution, dtype, steps, unrolls
):
    monkeypatch.setattr(backend, "is_single_cpu", lambda: single)
    with backend.computing_for(platform):
        assert backend.dot_general() is product
        assert backend.conv_general_dilated() is convolution
        assert backend.auto_dtype() == dtype
        assert backend.max_steps_per_dispatch() == steps
        assert backend.unrolls_loops() is unrolls
        assert (backend.num_microbatches(64, int(1e9)) == 4) is single


@pytest.mark.parametrize(
    "capability, dtype",
    [
        ("6.1", "float32"), ("7.5", "float16"), ("8.0", "bfloat16"),
        ("9.0", "bfloat16"), ("gfx90a", "bfloat16"),
    ],
)  # fmt: skip
def test_the_dtype_is_one_that_the_gpu_multiplies_fast(capability, dtype):
    with backend.computing_for("gpu", capability):
        assert backend.auto_dtype() == dtype


def test_a_single_cpu_splits_large_batches(monkeypatch):
    monkeypatch.setattr(backend, "is_single_cpu", lambda: True)
    macs = int(backend.MIN_MICROBATCH_MACS / 16)
    assert backend.num_microbatches(64, macs) == 4
    assert backend.num_microbatches(62, macs) == 2  # 62 is no multiple of 4.
    assert backend.num_microbatches(16, macs) == 1  # Too little work to split.


def test_cudnn_needs_a_newer_gpu_of_nvidia_16_bits_and_heads_it_can_do():
    for device, dtype, head_width, expected in (
        (("cpu",), jnp.bfloat16, 64, "plain"),
        (("gpu", "9.0"), jnp.float32, 64, "plain"),
        (("gpu", "7.5"), jnp.bfloat16, 64, "plain"),
        (("gpu", "gfx90a"), jnp.bfloat16, 64, "plain"),
        (("gpu", "9.0"), jnp.bfloat16, 20, "plain"),
        (("gpu", "8.0"), jnp.bfloat16, 256, "plain"),
        (("gpu", "9.0"), jnp.bfloat16, 512, "plain"),
        (("gpu", "8.0"), jnp.bfloat16, 128, "cudnn"),
        (("gpu", "9.0"), jnp.bfloat16, 256, "cudnn"),
        (("gpu", "10.0"), jnp.float16, 64, "cudnn"),
    ):
        choose = functools.partial(
            backend.attention_implementation, dtype=dtype, head_width=head_width
        )
        with backend.computing_for(*device):
            assert choose("cudnn") == expected
            assert choose("xla") == "xla"


def test_options_for_convolutions_are_this_machines(monkeypatch):
    x, kernel = jnp.ones((8, 8, 8, 16)), jnp.ones((3, 3, 16, 16))

    def convolve(options):
        def plain(x, kernel):
            return jax.lax.conv_general_dilated(
                x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )

        jitted = jax.jit(plain, compiler_options=options)
        np.testing.assert_allclose(jitted(x, kernel)[:, 1:-1, 1:-1], 9 * 16, rtol=1e-6)
        return jitted.lower(x, kernel).compile().as_text()

    options = backend.compiler_options()
    if "ynn_fusion" in convolve({}):
        assert "ynn_fusion" not in convolve(options)

    def refuse(*args, **kwargs):
        raise jax.errors.JaxRuntimeError("No such compile option")

    # The function behind the cache, which keeps this machine's answer.
    monkeypatch.setattr(jax, "jit", refuse)
    assert backend.compiler_options.__wrapped__() == {}
    monkeypatch.undo()
    assert backend.compiler_options() == options
    with backend.computing_for("gpu"):
        # An option of the CPU's compiler would be refused.
        assert backend.jit(lambda x: 2 * x)(1) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        models.ViT(patch_size=8, width=16, depth=1, num_heads=2, num_classes=4),
        models.ResNet(num_classes=4, width=4, stage_sizes=(1,)),
    ],
    ids=["vit", "resnet"],
)
def test_an_initialisation_has_the_values_of_every_level_of_the_compiler(model):
    def init(key):
        return model.init(key, jnp.zeros((1, 32, 32, 3)))

    options = {"xla_backend_optimization_level": 3}
    key = jax.random.key(0)
    expected = jax.jit(init, compiler_options=options)(key)
    found = backend.jit_initialisation(init)(key)
    # JAX 0.10 gives the same bits; JAX 0.12 rounds one of these numbers otherwise.
    close = functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-9)
    jax.tree.map(close, found, expected)


def test_an_initialisation_elsewhere_has_no_options_of_a_cpu():
    with backend.computing_for("gpu"):
        draw = backend.jit_initialisation(lambda key: jax.random.normal(key, (4,)))
    # JAX refuses options in a function that is part of another one.
    assert jax.eval_shape(draw, jax.random.key(0)).shape == (4,)


@pytest.mark.parametrize("other", ["cpu", "gpu"])
def test_an_initialisation_for_a_gpu_draws_by_a_kernel(other):
    def lower():
        draw = jax.jit(lambda key: jax.random.normal(key, (4,)))
        traced = draw.trace(jax.random.key(0))
        return traced.lower(lowering_platforms=("cuda",)).as_text()

    written_out = lower()
    with backend.computing_for(other), backend.drawing_by_kernel():
        inside = lower()
    assert ("threefry2x32_ffi" in inside) == (other == "gpu")
    assert "threefry2x32_ffi" not in written_out
    assert lower() == written_out


def loss_of_stored(x):
    return jnp.sin(backend.with_stored_gradient(x) ** 2).sum()


def test_a_stored_gradient_is_the_same_forward_and_backward():
    x = jax.random.normal(jax.random.key(0), (2, 8, 4))
    expected = jax.vmap(lambda x: 2 * x * jnp.cos(x**2))(x)
    gradient = jax.vmap(jax.grad(loss_of_stored))(x)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)
    _, change = jax.jvp(loss_of_stored, (x,), (x,))
    np.testing.assert_allclose(change, (expected * x).sum(), rtol=1e-5)


def test_the_compiled_program_keeps_the_barrier():
    gradient, x = jax.grad(loss_of_stored), jnp.ones((2, 8, 4))
    assert "opt-barrier" in backend.jit(gradient).lower(x).compile().as_text()
    # Without the options of `backend.jit`, XLA removes it.
    assert "opt-barrier" not in jax.jit(gradient).lower(x).compile().as_text()
    with backend.computing_for("gpu"):
        program = jax.jit(jax.grad(loss_of_stored)).lower(x)
    assert "optimization_barrier" not in program.as_text()
