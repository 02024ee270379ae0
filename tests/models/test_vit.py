"""The ViT against a plain NumPy one, and what each of its settings does."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from tests.models.cpu.convolutions import numpy_conv
from tests.models.shapes import random_images, random_variables, shapes_of
from tests.rows import slow
from vit_jax.models import ViT, init_variables
from vit_jax.models.embeddings import shift_diagonally, sinusoidal_1d, sinusoidal_2d

IMAGE_SHAPE = (8, 12, 3)
SMALL = {"num_classes": 5, "width": 8, "depth": 2, "num_heads": 2, "mlp_ratio": 1.5}


def draw(model, num_images=3):
    """(variables, images)."""
    images = random_images(num_images, IMAGE_SHAPE)
    return random_variables(model, IMAGE_SHAPE), images


# ---- the same network in NumPy, one image and one head at a time, float64


def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def layer_norm(p, x, eps):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    return x * p["scale"] + p.get("bias", 0)


def dense(p, x):
    return x @ p["kernel"] + p.get("bias", 0)


def numpy_attention(p, x, model):
    outputs, num_tokens = 0, len(x)
    for head in range(model.num_heads):
        bias = p["qkv"].get("bias", np.zeros(p["qkv"]["kernel"].shape[1:]))
        query, key, value = (
            x @ p["qkv"]["kernel"][:, i, head] + bias[i, head] for i in range(3)
        )
        if model.qk_norm:
            query = layer_norm(p["query_norm"], query, model.norm_eps)
            key = layer_norm(p["key_norm"], key, model.norm_eps)
        logits = query @ key.T / np.sqrt(query.shape[-1])
        if model.local_attention:
            logits = query @ key.T * p["inverse_temperature"][head]
            logits[np.arange(num_tokens), np.arange(num_tokens)] = -np.inf
        outputs = outputs + softmax(logits) @ value @ p["out"]["kernel"][head]
    return outputs + p["out"]["bias"]


def numpy_mlp(p, x, model):
    x = dense(p["hidden"], x)
    if model.activation == "relu":
        x = np.maximum(x, 0)
    else:
        x = x * (1 + special.erf(x / np.sqrt(2))) / 2
    return dense(p["out"], x)


def numpy_patches(p, image, model):
    side = model.patch_size
    if model.stem == "shifted_patch":
        image = np.float64(shift_diagonally(jnp.float32(image[None]), side // 2)[0])
    kernel = p["projection"]["kernel"].reshape(-1, model.width)
    tokens = []
    for y in range(0, image.shape[0], side):
        for x in range(0, image.shape[1], side):
            patch = image[y : y + side, x : x + side].reshape(-1)
            if model.stem == "shifted_patch":
                patch = layer_norm(p["norm"], patch, model.norm_eps)
            tokens.append(patch @ kernel + p["projection"]["bias"])
    return np.array(tokens)


def numpy_conv_stem(p, image, model):
    num_layers = len(model.stem_channels) + 1
    num_halvings = int(np.log2(model.patch_size))
    x = image
    for i in range(num_layers):
        halve = i >= num_layers - num_halvings
        kernel = p[f"conv{i}"]["kernel"]
        x = full = np.maximum(numpy_conv(x[None], kernel, 1)[0], 0)
        if halve and model.stem_downsampling == "stride":
            x = full[::2, ::2]
        elif halve:
            padded = np.pad(full, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
            rows, columns = range(0, full.shape[0], 2), range(0, full.shape[1], 2)
            x = np.array(
                [[padded[r : r + 3, c : c + 3].max((0, 1)) for c in columns]
                 for r in rows]
            )  # fmt: skip
    return x.reshape(-1, model.width)


def numpy_positions(p, model, grid):
    num_prefix_tokens = int(model.pooling == "cls") + int(model.distillation_token)
    if model.position_embedding == "none":
        return 0
    if model.position_embedding == "learned":
        return p["positions"][0]
    if model.position_embedding == "sinusoidal_1d":
        return sinusoidal_1d(num_prefix_tokens + math.prod(grid), model.width)
    zeros = np.zeros((num_prefix_tokens, model.width))
    return np.concatenate([zeros, sinusoidal_2d(*grid, model.width)])


def numpy_vit(p, image, model):
    """Logits of one image."""
    grid = [n // model.patch_size for n in image.shape[:2]]
    stem = numpy_conv_stem if model.stem == "conv" else numpy_patches
    x = stem(p["stem"], image, model)
    if model.patch_norm:
        x = layer_norm(p["patch_norm"], x, model.norm_eps)
    if model.distillation_token:
        x = np.concatenate([p["distillation_token"][0], x])
    if model.pooling == "cls":
        x = np.concatenate([p["class_token"][0], x])
    x = x + numpy_positions(p, model, grid)
    if model.num_registers:
        x = np.concatenate([x, p["registers"][0]])
    for i in range(model.depth):
        block = p[f"block{i}"]

        def norm(index, x, block=block):
            return layer_norm(block[f"norm{index}"], x, model.norm_eps)

        scale1, scale2 = 1, 1
        if model.layer_scale:
            scale1, scale2 = (block[f"branch_scale{i}"]["scale"] for i in (1, 2))
        if model.norm_position == "pre":
            x = x + scale1 * numpy_attention(block["attention"], norm(1, x), model)
            x = x + scale2 * numpy_mlp(block["mlp"], norm(2, x), model)
        else:
            x = norm(1, x + scale1 * numpy_attention(block["attention"], x, model))
            x = norm(2, x + scale2 * numpy_mlp(block["mlp"], x, model))
    if model.final_norm:
        x = layer_norm(p["final_norm"], x, model.norm_eps)
    patches = x[int(model.pooling == "cls") :][: grid[0] * grid[1]]
    if model.pooling == "cls":
        features = x[0]
    elif model.pooling == "mean":
        features = patches.mean(0)
    else:
        features = softmax(dense(p["pool"], patches)[:, 0]) @ patches
    logits = dense(p["head"], features)
    if model.distillation_token:
        logits = (logits + dense(p["distillation_head"], x[1])) / 2
    return logits


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm_position": "post", "final_norm": False, "activation": "relu",
         "position_embedding": "sinusoidal_1d", "norm_eps": 1e-3},
        {"pooling": "mean", "position_embedding": "sinusoidal_2d", "num_registers": 2},
        slow({"pooling": "mean", "position_embedding": "learned",
              "norm_position": "post"}),
        slow({"pooling": "mean", "position_embedding": "sinusoidal_1d",
              "qkv_bias": False}),
        slow({"position_embedding": "sinusoidal_2d", "num_registers": 3,
              "patch_size": 2}),
        slow({"position_embedding": "none", "patch_norm": True,
              "norm_position": "post"}),
        {"pooling": "sequence", "num_registers": 1, "position_embedding": "none"},
        slow({"qk_norm": True, "layer_scale": 0.5}),
        {"local_attention": True, "stem": "shifted_patch", "norm_position": "post",
         "layer_scale": 0.5},
        {"stem": "conv", "patch_size": 2, "pooling": "sequence"},
        {"stem": "conv", "stem_channels": (4, 6), "stem_downsampling": "stride"},
        {"distillation_token": True, "num_registers": 1},
        slow({"distillation_token": True, "position_embedding": "sinusoidal_1d"}),
        slow({"distillation_token": True, "position_embedding": "sinusoidal_2d"}),
    ],
    ids=lambda settings: "-".join(map(str, settings.values())) or "defaults",
)  # fmt: skip
def test_forward_agrees_with_numpy(settings):
    model = ViT(**(SMALL | settings))
    variables, images = draw(model)
    logits = jax.jit(model.apply)(variables, images)
    exact = jax.tree.map(np.float64, variables["params"])
    expected = [numpy_vit(exact, image, model) for image in np.float64(images)]
    assert np.std(expected) > 0.1
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_sown_arrays_are_those_of_the_forward_pass():
    model = ViT(**SMALL, num_registers=1)
    variables, images = draw(model)
    plain = jax.jit(model.apply)(variables, images)
    logits, state = jax.jit(
        lambda *args: model.apply(*args, mutable=["intermediates"])
    )(variables, images)
    np.testing.assert_array_equal(logits, plain)

    sown, params = state["intermediates"], variables["params"]
    (features,) = sown["features"]
    assert features.shape == (3, 8)
    head = features @ params["head"]["kernel"] + params["head"]["bias"][None]
    np.testing.assert_allclose(head, logits, rtol=1e-5, atol=1e-5)
    for block in ("block0", "block1"):
        (weights,) = sown[block]["attention"]["attention"]
        assert weights.shape == (3, 2, 8, 8)  # 1 class token, 6 patches, 1 register
        assert weights.dtype == jnp.float32
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


def test_nothing_is_sown_unless_asked_for():
    model = ViT(**SMALL)
    variables, images = draw(model)
    state = jax.eval_shape(
        lambda: model.apply(variables, images, mutable=["batch_stats"])
    )[1]
    assert state == {}
    for each in (model, ViT(**SMALL, distillation_token=True)):
        assert set(shapes_of(each, IMAGE_SHAPE)) == {"params"}


def test_each_head_is_told_apart_where_asked():
    model = ViT(**SMALL, distillation_token=True)
    variables, images = draw(model)
    apply = jax.jit(functools.partial(model.apply, mutable=["heads"]))
    logits, state = apply(variables, images)
    assert set(state) == {"heads"}
    (first,), (second,) = (state["heads"][x] for x in ("class", "distillation"))
    assert np.abs(first - second).max() > 0.01
    np.testing.assert_array_equal(logits, (first + second) / 2)


# Field: (a value other than that of `SMALL`, further settings that it needs).
CHANGES = {
    "num_classes": (6, {}),
    "patch_size": (2, {}),
    "width": (12, {}),
    "depth": (1, {}),
    "num_heads": (4, {}),
    "mlp_ratio": (2.0, {}),
    "qkv_bias": (False, {}),
    "position_embedding": ("sinusoidal_2d", {}),
    "layer_init": ("pytorch", {}),
    "token_init": ("zeros", {}),
    "pooling": ("mean", {}),
    "distillation_token": (True, {}),
    "norm_position": ("post", {}),
    "final_norm": (False, {}),
    "patch_norm": (True, {}),
    "dropout": (0.5, {}),
    "embedding_dropout": (0.5, {}),
    "attention_dropout": (0.5, {}),
    "mlp_output_dropout": (0.5, {}),
    "drop_path": (0.9, {}),
    "layer_scale": (0.1, {}),
    "qk_norm": (True, {}),
    "num_registers": (1, {}),
    "stem": ("shifted_patch", {}),
    "stem_channels": ((4,), {"stem": "conv"}),
    "stem_downsampling": ("stride", {"stem": "conv", "patch_size": 2}),
    "stem_norm": ("batch", {"stem": "conv", "stem_channels": (4, 4)}),
    "stem_init": (
        "cosine",
        {"stem": "conv", "stem_channels": (4, 4), "stem_norm": "batch"},
    ),
    "local_attention": (True, {}),
    "mimetic_init": (True, {}),
    "activation": ("relu", {}),
    "norm_eps": (0.1, {}),
    "dtype": (jnp.bfloat16, {}),
}


def test_every_setting_is_tried():
    fields = {field.name for field in dataclasses.fields(ViT)}
    # The last computes the same in another way: see test_attention.
    assert set(CHANGES) == fields - {"name", "parent", "attention_implementation"}


@pytest.mark.slow
@pytest.mark.parametrize("field", sorted(CHANGES))
def test_every_setting_acts(field):
    value, others = CHANGES[field]
    models = [ViT(**(SMALL | others)), ViT(**(SMALL | others | {field: value}))]
    key = jax.random.key(0)
    shapes = [shapes_of(model, IMAGE_SHAPE) for model in models]
    if shapes[0] != shapes[1]:
        return  # other parameters
    if field.endswith("_init"):
        models = [model.clone(depth=1) for model in models]
        all_variables = [init_variables(model, key, IMAGE_SHAPE) for model in models]
    else:
        all_variables = [random_variables(models[0], IMAGE_SHAPE)] * 2
    outputs = [
        model.apply(
            variables, random_images(8, IMAGE_SHAPE), train=True, rngs={"dropout": key},
            mutable=["batch_stats"],
        )[0]
        for model, variables in zip(models, all_variables, strict=True)
    ]  # fmt: skip
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-4


@pytest.mark.slow
def test_gradients_reach_every_parameter():
    model = ViT(
        **SMALL, num_registers=1, qk_norm=True, local_attention=True, layer_scale=0.3,
        pooling="sequence", stem="shifted_patch", patch_norm=True,
    )  # fmt: skip
    variables, images = draw(model)
    gradients = jax.jit(
        jax.grad(lambda params: jnp.square(model.apply(params, images)).sum())
    )(variables)
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradients):
        assert np.abs(leaf).max() > 1e-6, jax.tree_util.keystr(path)
