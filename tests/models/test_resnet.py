"""The ResNet against a plain NumPy one, with BatchNorm in both modes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.models import ResNet, backend, init_variables
from vit_jax.models.cpu import winograd
from vit_jax.models.cpu.convolution import by_chunks, on_cpu

EPSILON, MOMENTUM = 1e-5, 0.9


def numpy_conv(x, kernel, stride):
    """Cross-correlation of [b, h, w, c] with zero padding of half the kernel."""
    side = kernel.shape[0]
    pad = side // 2
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (side, side), axis=(1, 2))
    windows = windows[:, ::stride, ::stride]  # b, rows, columns, c, ky, kx
    return np.tensordot(windows, kernel, axes=([4, 5, 3], [0, 1, 2]))


def numpy_norm(params, stats, x, new_stats):
    """BatchNorm, by the batch's own statistics if `new_stats` is there to keep them."""
    mean, var = stats["mean"], stats["var"]
    if new_stats is not None:
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        new_stats["mean"] = MOMENTUM * stats["mean"] + (1 - MOMENTUM) * mean
        new_stats["var"] = MOMENTUM * stats["var"] + (1 - MOMENTUM) * var
    x = (x - mean) / np.sqrt(var + EPSILON)
    return x * params["scale"] + params["bias"]


def numpy_resnet(variables, images, model, train):
    """(logits, what the training pass leaves as running statistics)."""
    params, stats, new = variables["params"], variables["batch_stats"], {}

    def conv_norm(x, index, stride, block=None):
        p, s = (params, stats) if block is None else (params[block], stats[block])
        n = new.setdefault(block, {}) if block else new
        x = numpy_conv(x, p[index.replace("norm", "conv")]["kernel"], stride)
        taken = n.setdefault(index, {}) if train else None
        return numpy_norm(p[index], s[index], x, taken)

    x = np.maximum(conv_norm(images, "stem_norm", 1), 0)
    for stage, num_blocks in enumerate(model.stage_sizes, start=1):
        for i in range(1, num_blocks + 1):
            name, stride = f"stage{stage}_block{i}", 2 if stage > 1 and i == 1 else 1
            strides = [1, stride, 1] if model.bottleneck else [stride, 1]
            shortcut = x
            if "shortcut_conv" in params[name]:
                shortcut = conv_norm(x, "shortcut_norm", stride, name)
            for j, layer_stride in enumerate(strides, start=1):
                x = conv_norm(x, f"norm{j}", layer_stride, name)
                x = np.maximum(x, 0) if j < len(strides) else x
            x = np.maximum(x + shortcut, 0)
    features = x.mean((1, 2))
    return features @ params["head"]["kernel"] + params["head"]["bias"], new


def random_variables(model, image_shape):
    """Variables of the model's shapes, BatchNorm's far from their initial 0 and 1."""
    rng = np.random.default_rng(0)
    images = jnp.zeros((1, *image_shape))
    shapes = jax.eval_shape(model.init, jax.random.key(0), images)

    def draw(path, leaf):
        name = path[-1].key
        if name == "kernel":
            fan_in = np.prod(leaf.shape[:-1])
            values = rng.normal(0, (2 / fan_in) ** 0.5, leaf.shape)
        elif name in ("var", "scale"):
            values = rng.uniform(0.3, 1.5, leaf.shape)
        else:
            values = rng.normal(0, 0.3, leaf.shape)
        return values.astype(np.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)


@pytest.fixture(
    scope="module",
    params=[
        {"stage_sizes": (2, 2, 2, 2), "width": 4},
        {"stage_sizes": (2, 1, 1), "width": 4, "bottleneck": True},
    ],
    ids=["resnet18", "bottleneck"],
)
def case(request):
    model = ResNet(num_classes=7, **request.param)
    image_shape = (16, 12, 3)
    images = jax.random.normal(jax.random.key(1), (4, *image_shape))
    return model, random_variables(model, image_shape), images


def test_evaluation_agrees_with_numpy(case):
    model, variables, images = case
    logits = jax.jit(model.apply)(variables, images)
    exact = jax.tree.map(np.float64, variables)
    expected, _ = numpy_resnet(exact, np.float64(images), model, train=False)
    assert np.std(expected) > 0.1
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_training_normalises_by_the_batch_and_keeps_its_statistics(case):
    model, variables, images = case
    logits, state = jax.jit(
        lambda v: model.apply(v, images, train=True, mutable=["batch_stats"])
    )(variables)
    exact = jax.tree.map(np.float64, variables)
    expected, stats = numpy_resnet(exact, np.float64(images), model, train=True)
    # Each standard deviation is of a few values in the last stage, where rounding has
    # a larger effect.
    np.testing.assert_allclose(logits, expected, rtol=1e-3, atol=1e-3)
    assert jax.tree.structure(stats) == jax.tree.structure(state["batch_stats"])
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
        stats,
        state["batch_stats"],
    )


def test_sown_feature_maps():
    model = ResNet(num_classes=3, width=4)
    variables = random_variables(model, (32, 32, 3))
    images = jax.random.normal(jax.random.key(0), (2, 32, 32, 3))
    logits, state = jax.jit(
        lambda v: model.apply(v, images, mutable=["intermediates"])
    )(variables)
    sown = {name: value for name, (value,) in state["intermediates"].items()}
    assert {name: value.shape for name, value in sown.items()} == {
        "stem": (2, 32, 32, 4),
        "stage1": (2, 32, 32, 4),
        "stage2": (2, 16, 16, 8),
        "stage3": (2, 8, 8, 16),
        "stage4": (2, 4, 4, 32),
        "features": (2, 32),
    }
    np.testing.assert_allclose(
        sown["features"], sown["stage4"].mean((1, 2)), rtol=1e-5, atol=1e-6
    )
    head = variables["params"]["head"]
    np.testing.assert_allclose(
        sown["features"] @ head["kernel"] + head["bias"][None], logits,
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_initial_values():
    model = ResNet(num_classes=10, stage_sizes=(1,), width=32)
    variables = init_variables(model, jax.random.key(0), (8, 8, 3))
    params = variables["params"]
    kernel = params["stage1_block1"]["conv1"]["kernel"]
    assert np.std(kernel) == pytest.approx((2 / (9 * 32)) ** 0.5, rel=0.05)
    np.testing.assert_array_equal(params["stage1_block1"]["norm2"]["scale"], 1)
    head = np.asarray(params["head"]["kernel"])
    assert 0.9 / 32**0.5 < np.abs(head).max() <= 1 / 32**0.5
    np.testing.assert_array_equal(params["head"]["bias"], 0)
    np.testing.assert_array_equal(variables["batch_stats"]["stem_norm"]["mean"], 0)
    np.testing.assert_array_equal(variables["batch_stats"]["stem_norm"]["var"], 1)


def assert_gradients_agree(convolve, x, kernel, stride, tolerance):
    """That values and gradients are those of `jax.lax.conv_general_dilated`.

    Of two networks side by side, as in a sweep: everything has one more axis in front.
    """
    sides = [side // stride for side in x.shape[2:4]]
    shape = (*x.shape[:2], *sides, kernel.shape[-1])
    weights = jax.random.normal(jax.random.key(2), shape, x.dtype)
    pad = kernel.shape[1] // 2

    def value_and_gradients(convolve):
        def loss(x, kernel, weights):
            y = convolve(
                x, kernel, (stride, stride), [(pad, pad), (pad, pad)],
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )  # fmt: skip
            return (weights * y**2).sum(dtype=jnp.float32)

        run = jax.jit(jax.vmap(jax.value_and_grad(loss, argnums=(0, 1))))
        return run(x, kernel, weights)

    def check(ours, expected):
        assert ours.dtype == expected.dtype
        ours, expected = (np.asarray(v, np.float64) for v in (ours, expected))
        atol = tolerance * np.abs(expected).max()
        np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=atol)

    jax.tree.map(
        check,
        value_and_gradients(convolve),
        value_and_gradients(jax.lax.conv_general_dilated),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "stride, dtype, tolerance",
    [(1, np.float32, 1e-5), (2, np.float32, 1e-5), (1, jnp.bfloat16, 0.02)],
)
def test_gradients_by_chunks_are_the_gradients(stride, dtype, tolerance):
    # Some chunks and a rest.
    x = jax.random.normal(jax.random.key(0), (2, 70, 6, 6, 3), dtype)
    kernel = jax.random.normal(jax.random.key(1), (2, 3, 3, 3, 4), dtype)
    assert_gradients_agree(by_chunks, x, kernel, stride, tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("sides", [(4, 4), (12, 8)])
def test_winograds_algorithm_is_a_convolution(sides):
    x = jax.random.normal(jax.random.key(0), (2, 3, *sides, 5))
    kernel = jax.random.normal(jax.random.key(1), (2, 3, 3, 5, 7))
    exact = numpy_conv(np.float64(x[0]), np.float64(kernel[0]), stride=1)
    y = winograd.convolve(x[0], kernel[0])
    assert np.abs(y - exact).max() < 1e-5 * np.abs(exact).max()

    def convolve(x, kernel, *arguments, **options):
        return winograd.convolve(x, kernel)

    assert_gradients_agree(convolve, x, kernel, 1, 2e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "side, kernel_side, stride, channels, dtype, fast",
    [
        (4, 3, 1, (128, 130), np.float32, True),
        (4, 3, 1, (128, 64), np.float32, False),
        (6, 3, 1, (128, 128), np.float32, False),
        (4, 3, 2, (128, 128), np.float32, False),
        (4, 1, 1, (128, 128), np.float32, False),
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

    before = count_convolutions()  # With the eight devices of these tests.
    monkeypatch.setattr(backend, "is_single_cpu", lambda: True)
    # The gradients of 6 kernels take a second and a third chunk, and there is the
    # gradient of the images, which nothing uses.
    assert count_convolutions() == before + 2 * 6 + 1


def test_a_single_cpu_computes_wide_layers_by_winograd(monkeypatch):
    model = ResNet(num_classes=5, stage_sizes=(1,), width=128)
    images = jnp.zeros((2, 8, 8, 3))
    variables = init_variables(model, jax.random.key(0), images.shape[1:])

    def num_convolutions(train):
        def logits(variables):
            return model.apply(variables, images, train=train, mutable=["batch_stats"])

        return str(jax.make_jaxpr(logits)(variables)).count("conv_general_dilated[")

    assert num_convolutions(train=True) == num_convolutions(train=False) == 3
    monkeypatch.setattr(backend, "is_single_cpu", lambda: True)
    # What remains is the convolution of the image's three channels. Evaluation
    # computes as training does.
    assert num_convolutions(train=True) == num_convolutions(train=False) == 1
