"""The table of models, their settings and their numbers of parameters."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from tests.models.shapes import CIFAR, make, scaled_variables, shapes_of
from vit_jax import models
from vit_jax.config.settings import FIELDS
from vit_jax.errors import UserError

# All parameters except weight matrices and convolutions.
NOT_KERNELS = {
    "bias", "scale", "class_token", "positions", "registers", "inverse_temperature"
}  # fmt: skip
# Numbers that the studies of the models published, or counted by hand.
PARAMETERS = {
    "vit": 5_362_762,
    "vit_ti": 5_362_762,
    "vit_s": 21_342_346,
    "vit_b": 85_152_010,
    "vit_s_patch8": 21_379_210,
    "vit_192x9": 4_028_170,
    "vit_128x6_post_norm": 1_205_642,
    "vit_192x12_patch_norm": 5_356_234,
    "vit_256x6": 4_771_082,
    "cct_7": 3_760_138,
    "resnet18": 11_173_962,
    "resnet34": 21_282_122,
    "resnet50": 23_520_842,
}


# What the studies state of their models, as far as no number of parameters shows it.
STATED = {
    "vit_192x9": {
        "num_heads": 8, "dropout": 0.1, "embedding_dropout": 0.1,
        "attention_dropout": 0.1, "layer_init": "normal", "token_init": "normal",
        "norm_position": "pre", "activation": "gelu", "pooling": "cls",
    },
    "vit_s_patch8": {"num_heads": 6, "norm_eps": 1e-6, "activation": "gelu"},
    "vit_128x6_post_norm": {
        "num_heads": 8, "norm_position": "post", "dropout": 0.1,
        "attention_dropout": 0.1, "layer_init": "pytorch",
        "token_init": "standard_normal", "activation": "gelu",
    },
    "vit_192x12_patch_norm": {
        "num_heads": 3, "dropout": 0.1, "mlp_output_dropout": 0.1,
        "attention_dropout": 0.0, "norm_position": "pre",
    },
    "vit_256x6": {
        "num_heads": 8, "dropout": 0.0, "attention_dropout": 0.0,
        "layer_init": "pytorch", "token_init": "zeros", "norm_position": "pre",
        "activation": "gelu", "pooling": "cls",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", STATED)
def test_models_are_the_studys(name):
    model = make(name)
    assert {key: getattr(model, key) for key in STATED[name]} == STATED[name]


@pytest.mark.parametrize("name", models.MODELS)
def test_parameter_count_and_names(name):
    params = shapes_of(make(name))["params"]
    assert models.count_params(params) == PARAMETERS[name]
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        leaf_name = path[-1].key
        assert leaf_name in NOT_KERNELS or (leaf_name == "kernel" and leaf.ndim >= 2)
        assert leaf.dtype == jnp.float32


def test_config_replaces_the_rows_settings():
    model = make("vit_192x9", width=48, dropout=0.0, depth=None)
    assert (model.width, model.dropout, model.depth) == (48, 0.0, 9)
    assert make("vit_192x9").dropout == 0.1
    assert make("resnet34", width=8).stage_sizes == (3, 4, 6, 3)


def test_settings_are_complete_and_describe_the_same_model():
    given = ConfigDict(
        {"name": "cct_7", "dtype": "auto", "depth": 3, "stem_channels": [8.0],
         "width": None, "pooling": None, "patch_size": None}
    )  # fmt: skip
    settings = models.model_settings(given)
    assert settings == {
        "name": "cct_7", "dtype": "auto", "depth": 3, "stem_channels": (8,),
        "width": 256, "pooling": "sequence", "patch_size": 2,
    }  # fmt: skip
    assert models.model_settings(settings) == settings
    options = {"num_classes": 10, "image_shape": CIFAR, "dtype": jnp.float32}
    again = models.make_model(settings, **options)
    assert again == models.make_model(given, **options)
    resnet = models.model_settings({"name": "resnet18", "width": None, "depth": None})
    assert resnet == {"name": "resnet18", "width": 64, "depth": None}


def test_every_model_setting_of_the_config_is_a_field():
    keys = {key.split(".")[1] for key in FIELDS if key.startswith("model.")}
    fields = {field.name for field in dataclasses.fields(models.ViT)}
    assert keys == fields - {"parent", "num_classes"}
    settings = models.model_settings(dict.fromkeys(keys) | {"name": "vit"})
    assert {key for key, value in settings.items() if value is None} == {"dtype"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "resnet81"}, ["resnet81", 'did you mean "resnet18"']),
        ({"name": "resnet18", "patch_size": 4}, ["model.patch_size", "resnet18"]),
        ({"name": "vit", "patch_size": 5}, ["patch_size is 5", "1, 2, 4, 8, 16, 32"]),
        ({"name": "vit", "num_heads": 5}, ["num_heads is 5", "192", "2, 3, 4, 6"]),
        ({"name": "vit", "stem": "shifted_patch", "patch_size": 1}, ["even", "2, 4"]),
        ({"name": "cct_7", "patch_size": 4}, ["patch_size is 4", "work: 1, 2."]),
        ({"name": "vit", "width": 9, "position_embedding": "sinusoidal_1d"},
         ["width is 9", "by 2", "10"]),
        ({"name": "vit", "width": 90, "position_embedding": "sinusoidal_2d"},
         ["width is 90", "by 4", "92"]),
        ({"name": "vit", "stem_channels": (64,)}, ["stem_channels", "stem=conv"]),
        # All that have no effect are named at once.
        ({"name": "cct_7", "stem": "patch", "stem_channels": (8,),
          "stem_norm": "batch"},
         ["--config.model.stem_channels=None --config.model.stem_norm=None"]),
        ({"name": "cct_7", "distillation_token": True}, ["distillation", "=cls"]),
        ({"name": "vit", "stem": "conv", "stem_norm": "batch", "stem_channels": (8,)},
         ["patch_size is 4", "work: 1, 2."]),
        ({"name": "vit", "attention_implementation": "xla", "attention_dropout": 0.1},
         ["attention_dropout"]),
        ({"name": "vit", "attention_implementation": "xla", "local_attention": True},
         ["local_attention"]),
    ],
)  # fmt: skip
def test_impossible_settings_are_refused(settings, words):
    with pytest.raises(UserError) as error:
        make(**settings)
    for word in words:
        assert word in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("name", ["vit", "resnet"])
def test_16_bits_compute_close_to_float32(name, dtype):
    image_shape = (16, 16, 3)
    network, sizes = {
        "vit": (models.ViT, {"width": 24, "depth": 2}),
        "resnet": (models.ResNet, {"width": 8, "stage_sizes": (1, 1)}),
    }[name]
    exact = network(num_classes=10, **sizes)
    rounded = network(num_classes=10, dtype=dtype, **sizes)
    shapes = shapes_of(rounded, image_shape)
    assert {leaf.dtype for leaf in jax.tree.leaves(shapes)} == {jnp.dtype("float32")}
    variables = scaled_variables(rounded, image_shape)
    images = jax.random.normal(jax.random.key(1), (16, *image_shape))

    def run(model):
        collections = ["batch_stats", "intermediates"]
        return jax.jit(
            lambda v: model.apply(
                v, images, train=True, mutable=collections,
                rngs={"dropout": jax.random.key(2)},
            )
        )(variables)  # fmt: skip

    (expected, _), (logits, state) = run(exact), run(rounded)
    assert logits.dtype == jnp.float32
    for leaf in jax.tree.leaves(state.get("batch_stats", {})):
        assert leaf.dtype == jnp.float32
    assert state["intermediates"]["features"][0].dtype == jnp.float32
    error = np.abs(np.asarray(logits - expected)).max() / np.abs(expected).max()
    assert 0 < error < (0.01 if dtype == jnp.float16 else 0.05)
