"""Pretrained ViTs: their weights in, and ours out.

read.py        a file or folder, recognised by its content, and .npz;
               safetensors_format.py, pth_format.py: one format each; zip_file.py: the
               sizes that a zip declares
layouts.py     whose names are whose; rename.py: ours for theirs, in one form
fit.py         positions and patch kernels for another size; tokens.py: positions and
               registers of a model
load.py        the parameters of a model; match.py: what fits and what does not, and
               report.py: what became of each tensor
write.py       parameters as timm has them

Imports `vit_jax.models`, `vit_jax.files` and `vit_jax.errors` only. Nothing in a file
is run, and neither PyTorch nor timm is needed.
"""

from vit_jax.pretrained.load import implied_settings, load_pretrained
from vit_jax.pretrained.read import Weights, read_weights, weights_from_params
from vit_jax.pretrained.report import Report
from vit_jax.pretrained.write import save_timm

__all__ = [
    "Report",
    "Weights",
    "implied_settings",
    "load_pretrained",
    "read_weights",
    "save_timm",
    "weights_from_params",
]
