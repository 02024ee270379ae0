"""Pretrained ViTs: their weights in, and ours out.

read.py        a file or folder, recognised by its content, and .npz;
               safetensors_format.py, pth_format.py: one format each
layouts.py     tables of the names that other libraries use; rename.py: gives tensors
               our names, and their axes one order
fit.py         fits tokens, positions and patch kernels to a model
load.py        the parameters of a model from a file; match.py: refuses what does not
               fit, and reports what became of each tensor
write.py       writes parameters for timm

Imports `vit_jax.models`, `vit_jax.files` and `vit_jax.errors` only. Nothing in a file
is run, and neither PyTorch nor timm is needed.
"""

from vit_jax.pretrained.load import implied_settings, load_pretrained
from vit_jax.pretrained.match import Report
from vit_jax.pretrained.read import Weights, read_weights
from vit_jax.pretrained.write import save_timm

__all__ = [
    "Report",
    "Weights",
    "implied_settings",
    "load_pretrained",
    "read_weights",
    "save_timm",
]
