"""The settings of the model group; `settings` joins them with all others.

None, the default of nearly all, means that the named model has its own value: a row of
`vit_jax.models.MODELS` says which.
"""

import dataclasses
from functools import partial

from vit_jax.config.fields import (
    Field,
    choice,
    fraction,
    integer,
    integers,
    number,
    switch,
    text,
)

_NAMED = {
    "model.name": text("vit", "Which row of vit_jax.models.MODELS is built."),
    "model.dtype": choice(
        ("auto", "bfloat16", "float16", "float32"),
        "Type of the computation (parameters stay float32); auto takes float32 on CPU "
        "and bfloat16 on GPU and TPU, but float16 on NVIDIA's GPUs of compute "
        "capability 7, such as the T4, and float32 on those below.",
    ),
}

_integer = partial(integer, None)
_number = partial(number, None)
_rate = partial(fraction, None, below_one=True)
_switch = partial(switch, None)
_choice = partial(choice, optional=True)

_VARIANT = {
    "patch_size": _integer("Side of a patch in pixels.", 1, 4096),
    "width": _integer(
        "Length of a token's vector; channels of a ResNet's first stage.", 1, 2**16
    ),
    "depth": _integer("Number of encoder blocks.", 1, 200),
    "num_heads": _integer("Number of attention heads.", 1, 2**16),
    "mlp_ratio": _number(
        "Width of the MLP's hidden layer divided by model.width.", 0.1, 1000
    ),
    "qkv_bias": _switch("Queries, keys and values have a bias."),
    "position_embedding": _choice(
        ("learned", "sinusoidal_1d", "sinusoidal_2d", "none"),
        "Kind of position embedding; sinusoidal over the sequence (1d) or over the "
        "grid of patches (2d).",
    ),
    "layer_init": _choice(
        ("normal", "pytorch"),
        "Initialisation of layers: normal has a standard deviation of 0.02, and "
        "pytorch is PyTorch's default.",
    ),
    "token_init": _choice(
        ("normal", "standard_normal", "zeros"),
        "Initialisation of class token, registers and learned positions: normal has a "
        "standard deviation of 0.02, and standard_normal one of 1.",
    ),
    "pooling": _choice(
        ("cls", "mean", "sequence"),
        "What the classifier sees: the class token, the mean of the patch tokens, or "
        "their mean with learned weights (sequence).",
    ),
    "distillation_token": _switch(
        "A second token and head learn from the teacher; needs model.pooling=cls."
    ),
    "norm_position": _choice(
        ("pre", "post"), "LayerNorm stands before or after each sublayer."
    ),
    "final_norm": _switch("LayerNorm precedes the classifier."),
    "patch_norm": _switch("LayerNorm follows the patch embedding."),
    "dropout": _rate(
        "Dropout rate after the attention's projection and both MLP layers."
    ),
    "embedding_dropout": _rate("Dropout rate after positions are added."),
    "attention_dropout": _rate("Dropout rate of attention weights."),
    "mlp_output_dropout": _rate(
        "Rate of a second dropout on each MLP sublayer's output."
    ),
    "drop_path": _rate(
        "Rate of stochastic depth in the last block; it rises linearly from 0 in the "
        "first."
    ),
    "layer_scale": _number("Initial scale of residual branches; 0: no scale."),
    "qk_norm": _switch("LayerNorm follows queries and keys."),
    "num_registers": _integer("Number of register tokens.", high=2**16),
    "stem": _choice(
        ("patch", "conv", "shifted_patch"),
        "How patches become tokens: linear projection, convolutions, or shifted patch "
        "tokenisation.",
    ),
    "stem_channels": integers(
        None,
        "Channels of the convolutional stem's layers; without stem_norm a last one "
        "with model.width follows.",
    ),
    "stem_downsampling": _choice(
        ("max_pool", "stride", "avg_pool"),
        "How the convolutional stem reduces its maps.",
    ),
    "stem_norm": _choice(
        ("none", "batch"),
        "Normalisation after each of the convolutional stem's layers; with batch "
        "(BatchNorm), a linear projection to model.width follows the last.",
    ),
    "stem_init": _choice(
        ("random", "cosine"),
        "Filters that the convolutional stem's first layer starts with; cosine: cosine "
        "transforms of the pixels and colours, and their negatives.",
    ),
    "local_attention": _switch(
        "Attention has a learned temperature and a masked diagonal (LSA)."
    ),
    "mimetic_init": _switch(
        "Attention weights start with the structure of trained ones."
    ),
    "attention_implementation": _choice(
        ("plain", "xla", "cudnn"),
        "plain, or jax.nn's attention by xla or cudnn, which has neither attention "
        "dropout nor LSA; where cudnn cannot run, for the device or for the width of "
        "the heads, plain computes the same.",
    ),
    "activation": _choice(
        ("gelu", "gelu_tanh", "relu"),
        "Activation of the MLP; gelu_tanh approximates GELU, as Google's weights do.",
    ),
    "norm_eps": _number("Constant that LayerNorm adds to variances."),
}


def _with_default(field: Field) -> Field:
    meaning = f"{field.meaning} None: the named model's own value."
    return dataclasses.replace(field, meaning=meaning)


MODEL_FIELDS: dict[str, Field] = _NAMED | {
    f"model.{name}": _with_default(field) for name, field in _VARIANT.items()
}
