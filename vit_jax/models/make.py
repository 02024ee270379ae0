"""The table of models, and the model that a config describes."""

import dataclasses
import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from flax import linen as nn
from jax.typing import DTypeLike
from ml_collections import ConfigDict

from vit_jax.errors import UserError, require_known, show, user_code_fails
from vit_jax.models.mae import make_autoencoder
from vit_jax.models.resnet import ResNet
from vit_jax.models.variables import variable_shapes
from vit_jax.models.vit import ViT

# The defaults of the classes apply where a row gives no value.
MODELS: dict[str, functools.partial] = {
    # The sizes of Touvron et al., 2021, "Training data-efficient image transformers";
    # "vit" equals "vit_ti" and is meant to be changed by single settings.
    "vit": functools.partial(ViT),
    "vit_ti": functools.partial(ViT, width=192, depth=12, num_heads=3),
    "vit_s": functools.partial(ViT, width=384, depth=12, num_heads=6),
    "vit_b": functools.partial(ViT, width=768, depth=12, num_heads=12),
    # timm's vit_small_patch8_224, for fine-tuning.
    "vit_s_patch8": functools.partial(
        ViT, width=384, depth=12, num_heads=6, patch_size=8
    ),
    # Four ViTs of studies that trained them from scratch on CIFAR-10.
    "vit_192x9": functools.partial(
        ViT, width=192, depth=9, num_heads=8, dropout=0.1, embedding_dropout=0.1,
        attention_dropout=0.1, norm_eps=1e-5,
    ),
    "vit_128x6_post_norm": functools.partial(
        ViT, width=128, depth=6, num_heads=8, norm_position="post", final_norm=False,
        dropout=0.1, attention_dropout=0.1, layer_init="pytorch",
        token_init="standard_normal", norm_eps=1e-5,
    ),
    "vit_192x12_patch_norm": functools.partial(
        ViT, width=192, depth=12, num_heads=3, qkv_bias=False, patch_norm=True,
        dropout=0.1, mlp_output_dropout=0.1, norm_eps=1e-5,
    ),
    "vit_256x6": functools.partial(
        ViT, width=256, depth=6, num_heads=8, layer_init="pytorch", token_init="zeros",
        norm_eps=1e-5,
    ),
    # CCT-7/3x1 of Hassani et al., 2021: 256 tokens, sequence pooling. Their code
    # has another LayerNorm on the residual stream after attention; their text has not.
    "cct_7": functools.partial(
        ViT, width=256, depth=7, num_heads=4, mlp_ratio=2.0, stem="conv", patch_size=2,
        pooling="sequence", qkv_bias=False, attention_dropout=0.1, drop_path=0.1,
        norm_eps=1e-5,
    ),
    "resnet18": functools.partial(ResNet, stage_sizes=(2, 2, 2, 2)),
    "resnet34": functools.partial(ResNet, stage_sizes=(3, 4, 6, 3)),
    "resnet50": functools.partial(ResNet, stage_sizes=(3, 4, 6, 3), bottleneck=True),
}  # fmt: skip

_BUILT_IN = frozenset(MODELS)

# Settings that have an effect only if another setting has a certain value.
_NEEDS = {
    "distillation_token": ("pooling", "cls"),
    "stem_channels": ("stem", "conv"),
    "stem_downsampling": ("stem", "conv"),
    "stem_norm": ("stem", "conv"),
    # Without the norm, the smoothest filters would have a hundred times the variance.
    "stem_init": ("stem_norm", "batch"),
}


def make_model(
    config_model: ConfigDict | Mapping[str, Any],
    *,
    num_classes: int,
    image_shape: tuple[int, int, int],
    dtype: DTypeLike,
    config_mae: ConfigDict | Mapping[str, Any] | None = None,
) -> nn.Module:
    """The model that `config.model` describes, for images [height, width, channels].

    Args:
      config_model: `name`, a row of `MODELS`, and settings that replace the row's where
        they are not None. Its `dtype` is ignored in favour of the argument.
      num_classes: length of the logits.
      image_shape: of one image, in pixels.
      dtype: of the computation: jnp.float32, jnp.bfloat16 or jnp.float16.
      config_mae: `config.mae`, for the masked autoencoder of the ViT; None: the model
        itself.

    Raises:
      UserError: the name is unknown, the model does not have a setting, a setting would
        have no effect, or settings do not fit each other or the image.
    """
    network = _row(config_model["name"]).func
    settings = _resolve(config_model)
    if network is ViT:
        _check_patches(settings, image_shape)
        _check_width(settings)
        _check_attention(settings)
    model = network(num_classes=num_classes, dtype=dtype, **settings)
    try:
        hash(model)
    except TypeError:
        name = config_model["name"]
        raise UserError(
            f"The model {name} has an attribute that JAX cannot use as a key, such as "
            "a list, a dictionary or an array; give a tuple in its place."
        ) from None
    if config_mae is None:
        return model
    return make_autoencoder(model, config_mae, image_shape)


def model_settings(config_model: ConfigDict | Mapping[str, Any]) -> dict[str, Any]:
    """`config_model`, with the model's own value in place of every None.

    Settings that the model does not have stay None; the result describes the same
    model.

    Raises:
      UserError: the name is unknown, the model does not have a setting, or a setting
        would have no effect.
    """
    settings = _resolve(config_model)
    return {key: settings.get(key, value) for key, value in config_model.items()}


def _row(name: str) -> functools.partial:
    where = "set config.model.name to one in the file that config.code names, or to"
    require_known(name, MODELS, "model", where)
    return functools.partial(MODELS[name])  # A user's own model may be a class.


def _resolve(config_model: ConfigDict | Mapping[str, Any]) -> dict[str, Any]:
    """All settings by name: the config's where they are not None, else the row's."""
    name = config_model["name"]
    row = _row(name)
    _check_interface(name, row.func)
    apart = ("num_classes", "dtype", "name", "parent")
    defaults = {
        field.name: row.keywords.get(field.name, _default(field))
        for field in dataclasses.fields(row.func)
        if field.name not in apart
    }
    if row.args or not row.keywords.keys() <= defaults.keys():
        raise UserError(
            f"The model {name} is {row}, but functools.partial can only give it, by "
            f"name, {', '.join(defaults)}; correct it in the file that config.code "
            "names."
        )
    given = {k: v for k, v in config_model.items() if v is not None and k not in apart}
    if unknown := [key for key in given if key not in defaults]:
        known = ", ".join(key for key in config_model if key in defaults)
        has = f"only the settings {known}" if known else "none of these settings"
        first = unknown[0]
        raise UserError(
            f"config.model.{first} is {given[first]!r}, but {name} has {has}; set "
            "those that it does not have to None: "
            f"{_to_none(unknown)}"
        )
    if "stem_channels" in given:
        given["stem_channels"] = tuple(int(c) for c in given["stem_channels"])
    settings = defaults | given
    for key, value in settings.items():
        if value is dataclasses.MISSING:
            raise UserError(
                f"The model {name} has no default for {key}; give it one in its class, "
                f"or set config.model.{key} if there is such a setting."
            )
    idle = [
        key
        for key, (switch, needed) in _NEEDS.items()
        if key in given and given[key] != defaults[key] and settings[switch] != needed
    ]
    if idle:
        switch, needed = _NEEDS[idle[0]]
        raise UserError(
            f"config.model.{idle[0]} is {given[idle[0]]!r}, but has an effect only "
            f"with config.model.{switch}={needed}; set that, or leave out what has no "
            f"effect: {_to_none(idle)}"
        )
    return settings


def _default(field: dataclasses.Field) -> Any:
    """The default of a module's attribute; `dataclasses.MISSING` if it has none."""
    if field.default_factory is dataclasses.MISSING:
        return field.default
    return field.default_factory()


def _to_none(keys: Sequence[str]) -> str:
    return " ".join(f"--config.model.{key}=None" for key in keys)


def _check_interface(name: str, network: Any) -> None:
    """Refuses a model of `config.code` that could not be built or called."""
    what = f"The model {name} of config.code"
    if not (isinstance(network, type) and issubclass(network, nn.Module)):
        raise UserError(
            f"{what} must be a class of flax.linen.Module or a functools.partial of "
            f"one, from which models with other numbers of classes can be made, but "
            f"is {show(network)}; put the class itself into MODELS."
        )
    fields = {field.name for field in dataclasses.fields(network)}
    if lacking := [key for key in ("num_classes", "dtype") if key not in fields]:
        raise UserError(
            f"{what}, {network.__name__}, has no field {' and no field '.join(lacking)}"
            f"; add them to the class, as in: num_classes: int, dtype: Any = "
            "jnp.float32."
        )
    if "train" not in inspect.signature(network.__call__).parameters:
        raise UserError(
            f"{what}, {network.__name__}, has a __call__ that takes no argument train; "
            "write it as __call__(self, images, *, train=False)."
        )


def checked_shapes(
    name: str, model: nn.Module, image_shape: tuple[int, int, int]
) -> dict[str, Any]:
    """`variable_shapes`; a model of `config.code` also has to run and return logits.

    Args:
      name: `config.model.name`. A row of this package is not checked.

    Raises:
      UserError: the model fails, has variables that a training does not keep, or its
        result is no array [batch, num_classes].
    """
    if name in _BUILT_IN:
        return variable_shapes(model, image_shape)
    image = jax.ShapeDtypeStruct((1, *image_shape), np.float32)
    apply = functools.partial(model.apply, train=False)
    rngs = {"dropout": jax.random.key(0)}
    train = functools.partial(
        model.apply, train=True, rngs=rngs, mutable=["batch_stats", "heads"]
    )
    try:
        shapes = variable_shapes(model, image_shape)
        result = jax.eval_shape(apply, shapes, image)
        jax.eval_shape(train, shapes, image)
    except Exception as error:
        what = f"The model {name} of config.code"
        raise user_code_fails(what, error) from error
    if unknown := sorted(shapes.keys() - {"params", "batch_stats"}):
        raise UserError(
            f"The model {name} of config.code makes variables of the collection "
            f"{show(unknown[0])} when it is initialised, but a training keeps only "
            "params and batch_stats; use batch_stats, or call self.sow or self.perturb "
            "only if not self.is_initializing()."
        )
    shape, dtype = (getattr(result, name, None) for name in ("shape", "dtype"))
    if shape != (1, model.num_classes) or dtype != np.float32:
        what = f"a {type(result).__name__}" if shape is None else f"shape {list(shape)}"
        if shape == (1, model.num_classes):
            what = f"values of {dtype}"
        raise UserError(
            f"The model {name} of config.code returned {what}, but must return float32 "
            f"logits of shape [1, {model.num_classes}], [batch, num_classes]."
        )
    return shapes


def _check_patches(
    settings: Mapping[str, Any], image_shape: tuple[int, int, int]
) -> None:
    height, width, _ = image_shape
    sizes = [
        n for n in range(1, min(height, width) + 1) if height % n == width % n == 0
    ]
    reason = f"divide the image, which is {height} x {width}"
    if settings["stem"] == "shifted_patch":
        sizes = [n for n in sizes if n % 2 == 0]
        reason += ", and be even for the shift by half a patch"
    elif settings["stem"] == "conv":
        num_layers = len(settings["stem_channels"]) + (settings["stem_norm"] == "none")
        powers = [2**i for i in range(num_layers + 1)]
        sizes = [n for n in sizes if n in powers]
        reason += f", and be a power of two up to {powers[-1]}: the stem halves no more"
    if settings["patch_size"] not in sizes:
        works = ", ".join(map(str, sizes)) or "none"
        raise UserError(
            f"config.model.patch_size is {settings['patch_size']}, but must {reason}; "
            f"sizes that would work: {works}."
        )


def _check_attention(settings: Mapping[str, Any]) -> None:
    """Refuses what an implementation of attention cannot do."""
    implementation = settings["attention_implementation"]
    for key in ("attention_dropout", "local_attention"):
        if implementation != "plain" and settings[key]:
            raise UserError(
                f"config.model.attention_implementation is {implementation}, but only "
                f"plain has config.model.{key}, which is {settings[key]}; set the "
                "first to plain or switch the second off."
            )


def _check_width(settings: Mapping[str, Any]) -> None:
    width, num_heads = settings["width"], settings["num_heads"]
    if width % num_heads:
        divisors = [n for n in range(1, width + 1) if width % n == 0]
        near = sorted(sorted(divisors, key=lambda n: abs(n - num_heads))[:4])
        raise UserError(
            f"config.model.num_heads is {num_heads}, but must divide "
            f"config.model.width, which is {width}; nearest that would work: "
            f"{', '.join(map(str, near))}."
        )
    divisor = {"sinusoidal_1d": 2, "sinusoidal_2d": 4}.get(
        settings["position_embedding"], 1
    )
    if width % divisor:
        raise UserError(
            f"config.model.width is {width}, but must be divisible by {divisor} for "
            f"config.model.position_embedding={settings['position_embedding']}; "
            f"{width - width % divisor + divisor} would work."
        )
