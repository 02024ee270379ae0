"""Parameters start as PyTorch's own do: the statistics of every kind of parameter."""

import jax
import numpy as np
import pytest
from sklearn.datasets import load_sample_image

from vit_jax import models
from vit_jax.models.initializers import UNIFORM_KERNEL, cosine_filters_init

WIDTH, HEADS = 128, 8


@pytest.fixture(scope="module")
def params_of():
    def make(**settings):
        model = models.ViT(10, width=WIDTH, depth=2, num_heads=HEADS, **settings)
        params = models.init_variables(model, jax.random.key(0), (32, 32, 3))["params"]
        return {
            ".".join(entry.key for entry in path): np.asarray(leaf)
            for path, leaf in jax.tree_util.tree_leaves_with_path(params)
        }

    return make


def torch_parameters(torch, init):
    """Values of many fresh PyTorch modules, by the name of our parameter."""
    linear = torch.nn.Linear

    def draws(make, name):
        return torch.cat(
            [make().get_parameter(name).detach().ravel() for _ in range(20)]
        )

    attention = lambda: torch.nn.MultiheadAttention(WIDTH, HEADS)  # noqa: E731
    stem = lambda: torch.nn.Conv2d(3, WIDTH, 4, 4)  # noqa: E731
    expected = {
        "stem.projection.kernel": draws(stem, "weight"),
        "stem.projection.bias": draws(stem, "bias"),
    }
    if init == "pytorch":
        hidden = lambda: linear(WIDTH, 4 * WIDTH)  # noqa: E731
        out = lambda: linear(4 * WIDTH, WIDTH)  # noqa: E731
        head = lambda: linear(WIDTH, 10)  # noqa: E731
        return expected | {
            "block1.attention.qkv.kernel": draws(attention, "in_proj_weight"),
            "block1.attention.qkv.bias": draws(attention, "in_proj_bias"),
            "block1.attention.out.kernel": draws(attention, "out_proj.weight"),
            "block1.attention.out.bias": draws(attention, "out_proj.bias"),
            "block1.mlp.hidden.kernel": draws(hidden, "weight"),
            "block1.mlp.hidden.bias": draws(hidden, "bias"),
            "block1.mlp.out.kernel": draws(out, "weight"),
            "block1.mlp.out.bias": draws(out, "bias"),
            "head.kernel": draws(head, "weight"),
            "head.bias": draws(head, "bias"),
        }
    normal = torch.nn.init.trunc_normal_(torch.empty(20000), std=0.02)
    zeros = torch.zeros(10)
    layers = ("attention.qkv", "attention.out", "mlp.hidden", "mlp.out")
    for layer in (*(f"block1.{name}" for name in layers), "head"):
        expected |= {f"{layer}.kernel": normal, f"{layer}.bias": zeros}
    return expected | {"class_token": normal, "positions": normal}


@pytest.mark.slow
@pytest.mark.parametrize("init", ["normal", "pytorch"])
def test_every_kind_of_parameter_starts_as_pytorchs(params_of, init):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.manual_seed(0)
    ours = params_of(layer_init=init)
    for name, theirs in torch_parameters(torch, init).items():
        theirs, values = theirs.numpy(), ours[name]
        # Five standard errors of a standard deviation, and the ends of a range.
        tolerance = 5 / np.sqrt(values.size)
        assert values.std() == pytest.approx(theirs.std(), rel=tolerance), name
        assert abs(values.mean()) <= tolerance * theirs.std(), name
        if values.size > 1000 and init == "pytorch":
            ends = np.abs(theirs).max()
            assert np.abs(values).max() == pytest.approx(ends, rel=0.02), name
        if init == "normal" and name.endswith("mlp.hidden.kernel"):
            # The normal is not truncated: 4.6% lie beyond two standard deviations.
            beyond = (np.abs(values) > 0.04).mean()
            assert beyond == pytest.approx(0.0455, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "token_init, std", [("normal", 0.02), ("standard_normal", 1.0), ("zeros", 0.0)]
)
def test_tokens_and_positions(params_of, token_init, std):
    params = params_of(token_init=token_init, num_registers=4)
    for name in ("class_token", "registers", "positions"):
        tolerance = 5 / np.sqrt(params[name].size)
        assert params[name].std() == pytest.approx(std, rel=tolerance), name


def cosine_filters(shape):
    made = cosine_filters_init(UNIFORM_KERNEL)(jax.random.key(0), shape)
    return np.asarray(made).reshape(-1, shape[3])


def test_cosine_filters_come_with_their_negatives_and_then_random_ones():
    flat = cosine_filters((3, 3, 3, 32))
    np.testing.assert_allclose(flat[:, :16].T @ flat[:, :16], np.eye(16), atol=1e-6)
    np.testing.assert_array_equal(flat[:, 16:], -flat[:, :16])
    np.testing.assert_allclose(flat[:, 0], 27**-0.5, rtol=1e-6)
    # Grey images have nine filters, and an odd number of channels leaves one over.
    flat = cosine_filters((3, 3, 1, 21))
    np.testing.assert_allclose(flat[:, :9].T @ flat[:, :9], np.eye(9), atol=1e-6)
    np.testing.assert_array_equal(flat[:, 9:18], -flat[:, :9])
    drawn = np.asarray(UNIFORM_KERNEL(jax.random.key(0), (3, 3, 1, 21))).reshape(9, 21)
    np.testing.assert_array_equal(flat[:, 18:], drawn[:, 18:])
    assert cosine_filters((3, 3, 3, 1)).std() > 0


def test_cosine_filters_of_photographs_hardly_correlate():
    """As whitening would have it; pixels and colours by themselves are all alike."""
    image = load_sample_image("china.jpg") / 255
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (0, 1))
    patches = windows.transpose(0, 1, 3, 4, 2).reshape(-1, 27)

    def correlation(outputs):
        matrix = np.corrcoef(outputs, rowvar=False)
        return np.abs(matrix[~np.eye(len(matrix), dtype=bool)]).mean()

    filters = cosine_filters((3, 3, 3, 32))[:, :16]
    assert correlation(patches) > 0.8
    assert correlation(patches @ filters) < 0.1
