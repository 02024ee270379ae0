"""The ViT's parts: where and how often dropout acts, stems, positions, attention."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from jax.sharding import NamedSharding, PartitionSpec
from scipy.special import ndtr

from vit_jax.errors import UserError
from vit_jax.models import ViT, make_model
from vit_jax.models.attention import SelfAttention, mimetic_kernels
from vit_jax.models.block_settings import BlockSettings
from vit_jax.models.cpu.products import flat_dot_general
from vit_jax.models.dropout import Dropout, random_mask
from vit_jax.models.embeddings import (
    ConvStem,
    shift_diagonally,
    sinusoidal_1d,
    sinusoidal_2d,
)
from vit_jax.models.encoder import ACTIVATIONS


def random_variables(model, images):
    shapes = jax.eval_shape(model.init, jax.random.key(0), images)
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda leaf: rng.normal(0, 0.3, leaf.shape).astype(np.float32), shapes
    )


def record_dropouts(model, images):
    """{path of every nn.Dropout: (input, output)} of one training pass."""
    record, variables = {}, random_variables(model, images)

    def intercept(next_fun, args, kwargs, context):
        output = next_fun(*args, **kwargs)
        if isinstance(context.module, nn.Dropout):
            record["/".join(context.module.path)] = np.array(args[0]), np.array(output)
        return output

    with nn.intercept_methods(intercept):
        _, state = model.apply(
            variables, images, train=True,
            rngs={"dropout": jax.random.key(1)}, mutable=["intermediates"],
        )  # fmt: skip
    return record, state["intermediates"]


@pytest.fixture(scope="module")
def dropouts():
    model = ViT(
        5, width=8, depth=3, num_heads=2, activation="relu", dropout=0.1,
        embedding_dropout=0.2, attention_dropout=0.3, mlp_output_dropout=0.4,
        drop_path=0.5,
    )  # fmt: skip
    return record_dropouts(model, jax.random.normal(jax.random.key(2), (600, 8, 8, 3)))


@pytest.mark.slow
def test_every_dropout_acts_at_its_rate(dropouts):
    record, sown = dropouts
    expected = {"embedding_dropout": 0.2}
    for i, drop_path in enumerate([0.0, 0.25, 0.5]):
        expected |= {
            f"block{i}/attention/Dropout_0": 0.3,
            f"block{i}/attention/Dropout_1": 0.1,
            f"block{i}/mlp/Dropout_0": 0.1,
            f"block{i}/mlp/Dropout_1": 0.1,
            f"block{i}/mlp_output_dropout": 0.4,
            f"block{i}/branch_scale1/Dropout_0": drop_path,
            f"block{i}/branch_scale2/Dropout_0": drop_path,
        }
    assert set(record) == set(expected)
    for path, rate in expected.items():
        before, after = record[path]
        drawn = before != 0
        kept = drawn & (after != 0)
        # Five standard deviations, of whole examples where those are dropped.
        draws = len(before) if "branch_scale" in path else drawn.sum()
        tolerance = 5 * np.sqrt(rate * (1 - rate) / draws)
        assert 1 - kept.sum() / drawn.sum() == pytest.approx(rate, abs=tolerance), path
        rounded = round(rate * 2**16) / 2**16
        np.testing.assert_allclose(after[kept], before[kept] / (1 - rounded), rtol=1e-6)
    np.testing.assert_array_equal(
        record["block1/attention/Dropout_0"][0],
        sown["block1"]["attention"]["attention"][0],
    )


def test_stochastic_depth_drops_whole_examples(dropouts):
    for path, (before, after) in dropouts[0].items():
        if "branch_scale" in path:
            for example_before, example_after in zip(before, after, strict=True):
                dropped = example_after[example_before != 0] == 0
                assert dropped.all() or not dropped.any()


def test_mask_elements_are_independent_and_of_16_bits():
    """Also those that share a 32-bit number, and at rates next to 0 and to 1."""
    key = jax.random.key(5)
    keep = np.asarray(random_mask(key, (40_000, 5), num_dropped=2**14))
    assert keep.shape == (40_000, 5)
    centred = keep - 0.75
    covariance = centred.T @ centred / len(keep)
    np.testing.assert_allclose(covariance, 0.1875 * np.eye(5), atol=5 * 0.25 / 200)
    # One element in 2**16 each: seen, and seldom.
    for num_dropped, of_one in ((1, False), (2**16 - 1, True)):
        rare = random_mask(key, (1000, 1000), num_dropped) == of_one
        assert 1 <= rare.sum() <= 40
    layer = Dropout(1 - 1e-7, deterministic=False)
    out = layer.apply({}, jnp.ones((8, 8)), rngs={"dropout": key})
    assert np.isfinite(out).all()


def test_mask_does_not_depend_on_the_number_of_devices():
    def draw(num_devices):
        mesh = jax.make_mesh(
            (num_devices,), ("batch",), devices=jax.devices()[:num_devices]
        )
        out = NamedSharding(mesh, PartitionSpec("batch"))
        draw = jax.jit(
            lambda key: random_mask(key, (8, 3, 5), 2**15), out_shardings=out
        )
        return np.asarray(draw(jax.random.key(6)))

    np.testing.assert_array_equal(draw(1), draw(8))


def test_nothing_is_dropped_outside_training():
    sizes = {"num_classes": 5, "width": 8, "depth": 2, "num_heads": 2}
    images = jax.random.normal(jax.random.key(0), (2, 8, 8, 3))
    plain = ViT(**sizes)
    noisy = ViT(
        **sizes, dropout=0.5, embedding_dropout=0.5, attention_dropout=0.5,
        mlp_output_dropout=0.5, drop_path=0.5,
    )  # fmt: skip
    variables = random_variables(plain, images)
    np.testing.assert_array_equal(
        plain.apply(variables, images), noisy.apply(variables, images, train=False)
    )


def attention_with(tokens, **settings):
    layer = SelfAttention(BlockSettings(num_heads=2, **settings))
    variables = layer.init(jax.random.key(0), tokens, train=False)

    def weights(variables):
        _, state = layer.apply(
            variables, tokens, train=False, mutable=["intermediates"]
        )
        return state["intermediates"]["attention"][0]

    return variables["params"], weights


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("implementation", ["xla", "cudnn"])
def test_implementations_of_attention_agree(implementation, dtype):
    """Away from GPUs "cudnn" is "xla"; on one, it is what is tested here."""
    settings = {"num_heads": 4, "dtype": dtype, "qk_norm": True}
    layers = [
        SelfAttention(BlockSettings(**settings, attention_implementation=name))
        for name in ("plain", implementation)
    ]
    tokens = jax.random.normal(jax.random.key(1), (3, 9, 32))
    params = layers[0].init(jax.random.key(0), tokens, train=False)["params"]
    params = jax.tree.map(lambda x: 10 * x, params)

    def gradients(layer):
        def loss(params, tokens):
            out = layer.apply({"params": params}, tokens, train=True)
            return jnp.square(out.astype(jnp.float32)).sum(), out

        return jax.grad(loss, argnums=(0, 1), has_aux=True)(params, tokens)

    results = [gradients(layer) for layer in layers]
    tolerance = {jnp.float32: 1e-5, jnp.bfloat16: 3e-2}[dtype]

    def assert_close(a, b):
        a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
        assert np.abs(a - b).max() <= tolerance * np.abs(a).max()

    jax.tree.map(assert_close, *results)
    # Whoever asks for the weights gets them, and the same logits.
    out, state = layers[1].apply(
        {"params": params}, tokens, train=False, mutable=["intermediates"]
    )
    assert_close(out, results[1][1])
    (weights,) = state["intermediates"]["attention"]
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    "setting", [{"attention_dropout": 0.1}, {"local_attention": True}]
)
def test_what_only_plain_attention_has_is_refused(setting):
    with pytest.raises(UserError, match=next(iter(setting))):
        make_model(
            {"name": "vit", "attention_implementation": "xla", **setting},
            num_classes=10, image_shape=(32, 32, 3), dtype=jnp.float32,
        )  # fmt: skip


TOKENS = jax.random.normal(jax.random.key(3), (2, 6, 8)) * 20


def test_local_attention_masks_itself_and_learns_a_temperature():
    params, weights = attention_with(TOKENS, local_attention=True)
    np.testing.assert_allclose(params["inverse_temperature"], [4**-0.5] * 2)
    warm = weights({"params": params})
    np.testing.assert_array_equal(np.diagonal(warm, axis1=2, axis2=3), 0)
    np.testing.assert_allclose(warm.sum(-1), 1, rtol=1e-5)

    # A factor of 0 leaves no preference; only its own head feels it.
    flat = weights({"params": params | {"inverse_temperature": jnp.array([0.0, 0.5])}})
    for image_weights in flat[:, 0]:
        np.testing.assert_allclose(image_weights, (1 - np.eye(6)) / 5, rtol=1e-6)
    np.testing.assert_array_equal(flat[:, 1], warm[:, 1])
    assert np.abs(warm[:, 0] - flat[:, 0]).max() > 0.01


def test_local_attention_of_a_lone_token_is_finite():
    params, weights = attention_with(TOKENS[:, :1], local_attention=True)
    np.testing.assert_array_equal(weights({"params": params}), 1.0)


def test_qk_norm_makes_attention_blind_to_the_scale_of_queries():
    for qk_norm, same in ((True, True), (False, False)):
        params, weights = attention_with(TOKENS, qk_norm=qk_norm, qkv_bias=False)
        kernel = params["qkv"]["kernel"].at[:, :2].multiply(3.0)
        scaled = params | {"qkv": {"kernel": kernel}}
        change = weights({"params": scaled}) - weights({"params": params})
        assert (np.abs(change).max() < 1e-3) == same


@pytest.mark.slow
def test_mimetic_products():
    width = 64
    for num_heads in (1, 4):
        head_width = width // num_heads
        qkv, out = mimetic_kernels(jax.random.key(0), width, num_heads)
        assert qkv.shape == (width, 3, num_heads, head_width)
        assert out.shape == (num_heads, head_width, width)

        value_out = np.einsum("ahd,hdb->ab", qkv[:, 2], out)
        noise = (value_out + 0.4 * np.eye(width)) / 0.4
        assert noise.mean() == pytest.approx(0, abs=5 / width**1.5)
        assert noise.std() == pytest.approx(width**-0.5, rel=0.05)

        for head in range(num_heads):
            query, key = qkv[:, 0, head], qkv[:, 1, head]
            product = np.asarray(query @ key.T)
            assert np.linalg.matrix_rank(product, tol=1e-3) == head_width
            # Evenly split: both factors have the same singular values.
            np.testing.assert_allclose(
                *(np.linalg.norm(x, axis=0) for x in (query, key)), rtol=1e-4
            )
            off_diagonal = product[~np.eye(width, dtype=bool)]
            fraction = np.diag(product).mean() / 0.7
            assert abs(off_diagonal.mean()) < 0.01
            if num_heads == 1:
                assert fraction == pytest.approx(1, abs=0.1)
                assert off_diagonal.std() == pytest.approx(0.7 * width**-0.5, rel=0.05)
            else:
                # The rank keeps the largest singular values, so more than 1 / heads.
                assert 1 / num_heads < fraction < 1


def test_mimetic_init_is_the_layers_own():
    params, _ = attention_with(TOKENS, mimetic_init=True)
    plain, _ = attention_with(TOKENS)
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, plain)
    product = np.einsum(
        "ahd,hdb->ab", params["qkv"]["kernel"][:, 2], params["out"]["kernel"]
    )
    assert np.diag(product).mean() < -0.2
    np.testing.assert_array_equal(params["qkv"]["bias"], 0)


def test_default_init_is_a_normal_of_std_002():
    layer = SelfAttention(BlockSettings(num_heads=2))
    params = layer.init(jax.random.key(0), jnp.zeros((1, 1, 96)), train=False)["params"]
    kernel = np.asarray(params["qkv"]["kernel"])
    assert np.abs(kernel).max() > 0.06  # Nothing is cut, see `initializers`.
    assert kernel.std() == pytest.approx(0.02, rel=0.02)


def test_shifted_patches_show_the_right_pixels():
    image = jnp.arange(1.0, 10.0).reshape(1, 3, 3, 1)
    views = shift_diagonally(image, 1)[0].transpose(2, 0, 1)
    np.testing.assert_array_equal(
        views,
        [
            [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
            [[5, 6, 0], [8, 9, 0], [0, 0, 0]],  # left and up
            [[0, 4, 5], [0, 7, 8], [0, 0, 0]],  # right and up
            [[0, 0, 0], [2, 3, 0], [5, 6, 0]],  # left and down
            [[0, 0, 0], [0, 1, 2], [0, 4, 5]],  # right and down
        ],
    )


def conv_shapes(stem):
    """Output shapes of the convolutions by name, of the stem, and its variables."""
    images = jnp.zeros((1, 32, 32, 3))
    outputs = {}

    def intercept(next_fun, args, kwargs, context):
        output = next_fun(*args, **kwargs)
        if isinstance(context.module, nn.Conv):
            outputs[context.module.name] = output.shape
        return output

    with nn.intercept_methods(intercept):
        tokens, variables = jax.eval_shape(
            lambda: stem.init_with_output(jax.random.key(0), images, train=False)
        )
    return outputs, tokens.shape, variables


@pytest.mark.parametrize(
    ("channels", "patch_size", "downsampling", "sides"),
    [
        ((16,), 2, "max_pool", [32]),  # CCT-7/3x1: 256 tokens of a 32x32 image
        ((8, 16), 4, "max_pool", [32, 16]),
        ((8, 16), 4, "avg_pool", [32, 16]),
        ((8, 16, 24), 4, "stride", [32, 16, 8]),
        ((8, 16), 1, "stride", [32, 32]),
    ],
)
def test_the_last_layer_of_each_stage_halves(channels, patch_size, downsampling, sides):
    stem = ConvStem(channels[-1], channels[:-1], patch_size, downsampling)
    outputs, tokens, variables = conv_shapes(stem)
    side = 32 // patch_size
    assert tokens == (1, side, side, channels[-1])
    expected = {
        f"conv{i}": (1, size, size, channels[i]) for i, size in enumerate(sides)
    }
    assert outputs == expected
    assert all(set(layer) == {"kernel"} for layer in variables["params"].values())


def test_a_normalised_stem_of_two_layers_a_stage():
    stem = ConvStem(24, (4, 4, 8, 8, 16, 16), 8, "avg_pool", norm="batch")
    outputs, tokens, variables = conv_shapes(stem)
    sides, channels = (32, 32, 16, 16, 8, 8), stem.channels
    assert outputs == {
        **{f"conv{i}": (1, n, n, channels[i]) for i, n in enumerate(sides)},
        "projection": (1, 4, 4, 24),
    }
    assert tokens == (1, 4, 4, 24)
    assert set(variables["batch_stats"]) == {f"norm{i}" for i in range(6)}


@pytest.mark.slow
def test_a_normalised_stem_agrees_with_pytorch_in_training_and_after():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    stem = ConvStem(6, (4, 5), 4, "avg_pool", norm="batch")
    images = jax.random.normal(jax.random.key(0), (3, 8, 8, 3))
    variables = stem.init(jax.random.key(1), images, train=False)
    layers = [
        torch.nn.Conv2d(3, 4, 3, padding=1, bias=False), torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(), torch.nn.AvgPool2d(2),
        torch.nn.Conv2d(4, 5, 3, padding=1, bias=False), torch.nn.BatchNorm2d(5),
        torch.nn.ReLU(), torch.nn.AvgPool2d(2), torch.nn.Conv2d(5, 6, 1),
    ]  # fmt: skip
    params = variables["params"]
    with torch.no_grad():
        for place, name in ((0, "conv0"), (4, "conv1"), (8, "projection")):
            kernel = np.array(params[name]["kernel"].transpose(3, 2, 0, 1))
            layers[place].weight.copy_(torch.from_numpy(kernel))
        layers[8].bias.copy_(torch.from_numpy(np.array(params["projection"]["bias"])))
    net = torch.nn.Sequential(*layers)
    x = torch.from_numpy(np.array(images.transpose(0, 3, 1, 2)))

    ours, updates = stem.apply(variables, images, train=True, mutable=["batch_stats"])
    theirs = net(x).detach().permute(0, 2, 3, 1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    means = net[1].running_mean.numpy()
    np.testing.assert_allclose(
        updates["batch_stats"]["norm0"]["mean"], means, rtol=1e-4, atol=1e-6
    )
    # PyTorch's running variance is unbiased, which is not what is normalised by here.
    with torch.no_grad():
        for place, name in ((1, "norm0"), (5, "norm1")):
            var = np.array(updates["batch_stats"][name]["var"])
            net[place].running_var.copy_(torch.from_numpy(var))
    ours = stem.apply(variables | updates, images, train=False)
    theirs = net.eval()(x).detach().permute(0, 2, 3, 1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_sinusoidal_positions_follow_the_formula():
    table = sinusoidal_1d(65, 12)
    assert table.dtype == np.float32
    for position, channel in [(0, 0), (0, 1), (64, 0), (17, 5), (64, 11)]:
        angle = position / 10000 ** (2 * (channel // 2) / 12)
        value = np.cos(angle) if channel % 2 else np.sin(angle)
        assert table[position, channel] == pytest.approx(value, abs=1e-6)

    grid = sinusoidal_2d(3, 5, 8).reshape(3, 5, 8)
    for row, column in np.ndindex(3, 5):
        np.testing.assert_array_equal(grid[row, column, :4], sinusoidal_1d(3, 4)[row])
        np.testing.assert_array_equal(
            grid[row, column, 4:], sinusoidal_1d(5, 4)[column]
        )


@pytest.mark.parametrize(
    "axis, features, in_shape", [(-1, (3, 2), (2, 5, 6)), ((-2, -1), 7, (2, 5, 3, 4))]
)
def test_flat_product_of_a_dense_layer(axis, features, in_shape):
    x = jax.random.normal(jax.random.key(0), in_shape)
    layer = nn.DenseGeneral(features, axis, bias_init=nn.initializers.normal(1))
    variables = layer.init(jax.random.key(1), x)
    flat = layer.clone(dot_general=flat_dot_general)
    expected = layer.apply(variables, x)
    assert jax.tree.all(
        jax.tree.map(np.array_equal, flat.init(jax.random.key(1), x), variables)
    )
    np.testing.assert_allclose(flat.apply(variables, x), expected, rtol=1e-5, atol=1e-6)


def test_flat_product_is_of_dense_layers_only():
    x = jnp.ones((2, 3, 3))
    for dimension_numbers in (((1,), (0,)), ((), ())), (((2,), (1,)), ((0,), (0,))):
        with pytest.raises(ValueError, match="dense layer"):
            flat_dot_general(x, x, dimension_numbers)


def test_no_activations_are_transposed_for_a_kernels_gradient():
    def transposed(dot_general):
        layer = nn.Dense(7, dot_general=dot_general)
        x, kernel, y = jnp.ones((2, 3, 5)), jnp.ones((5, 7)), jnp.ones((2, 3, 7))

        def gradient(x, kernel, y):
            def product(kernel):
                return layer.apply({"params": {"kernel": kernel, "bias": y[0, 0]}}, x)

            return jax.vjp(product, kernel)[1](y)

        text = jax.jit(gradient).lower(x, kernel, y).compile().as_text()
        return "f32[7,2,3]" in text or "f32[5,2,3]" in text

    assert not transposed(flat_dot_general)
    assert transposed(None)  # Else a dense layer needs no product of ours.


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(jnp.float32, 1e-6), (jnp.bfloat16, 2**-8)]
)
def test_gelu_and_its_slope_are_exact(dtype, tolerance):
    # The tanh approximation is up to 5e-4 away.
    x = jnp.linspace(-9, 9, 1001).astype(dtype)
    exact = np.asarray(x, np.float64)
    density = np.exp(-(exact**2) / 2) / np.sqrt(2 * np.pi)
    values = ACTIVATIONS["gelu"](x)
    slopes = jax.grad(lambda x: ACTIVATIONS["gelu"](x).astype(jnp.float32).sum())(x)
    for ours, expected in [
        (values, exact * ndtr(exact)),
        (slopes, ndtr(exact) + exact * density),
    ]:
        assert ours.dtype == dtype
        # In 16 bits the small values of negative numbers must be right as well.
        np.testing.assert_allclose(
            np.asarray(ours, np.float64), expected, rtol=tolerance, atol=1e-6
        )
