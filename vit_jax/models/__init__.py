"""The models: ViTs and ResNets that classify images, by name.

make.py           `MODELS`, the table of them; the model that a config describes
variables.py      its variables: initial values, shapes, count; macs.py and memory.py:
                  what a forward pass costs
vit.py            a ViT: embeddings.py (stem, tokens, positions), encoder.py (blocks),
                  attention.py, dropout.py, initializers.py; block_settings.py: the
                  settings that its blocks share
resnet.py         residual networks; norms.py: LayerNorm and BatchNorm
mae.py            the masked autoencoder that a ViT can start from
backend.py        decides what this machine computes with; cpu/: kernels for a CPU

Imports nothing else of `vit_jax` but `errors`.
"""

from vit_jax.models.macs import count_macs
from vit_jax.models.mae import MaskedAutoencoder
from vit_jax.models.make import MODELS, checked_shapes, make_model, model_settings
from vit_jax.models.resnet import ResNet
from vit_jax.models.variables import count_params, init_variables, variable_shapes
from vit_jax.models.vit import ViT

__all__ = [
    "MODELS",
    "MaskedAutoencoder",
    "ResNet",
    "ViT",
    "checked_shapes",
    "count_macs",
    "count_params",
    "init_variables",
    "make_model",
    "model_settings",
    "variable_shapes",
]
