"""The ResNet against a plain NumPy one, with BatchNorm in both modes."""

import jax
import numpy as np
import pytest

from tests.models.cpu.convolutions import numpy_conv
from tests.models.shapes import scaled_variables
from vit_jax.models import ResNet, init_variables

EPSILON, MOMENTUM = 1e-5, 0.9


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
    return model, scaled_variables(model, image_shape), images


def test_evaluation_agrees_with_numpy(case):
    model, variables, images = case
    logits = jax.jit(model.apply)(variables, images)
    exact = jax.tree.map(np.float64, variables)
    expected, _ = numpy_resnet(exact, np.float64(images), model, train=False)
    assert np.std(expected) > 0.1
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
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


@pytest.mark.slow
def test_sown_feature_maps():
    model = ResNet(num_classes=3, width=4)
    variables = scaled_variables(model, (32, 32, 3))
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


@pytest.mark.slow
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
