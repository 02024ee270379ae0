"""Datasets as NumPy arrays: every source yields splits of the same form.

sources.py       `load`: the splits of a run, from the source that the settings name
from_tfds.py, from_cifar_files.py, from_folder.py, from_digits.py   the sources
dataset.py       a labelled set of images, and how it is divided into splits
statistics.py    mean and standard deviation of the channels, measured or known
batches.py       which examples each step sees; random orders that no version of NumPy
                 changes
decoded.py, image_files.py, rows.py    images of folders, in memory or in a file
download.py, cifar_layouts.py    official files: fetched, checked, read

Imports `vit_jax.errors` and `files` only, and never JAX.
"""

from vit_jax.data import batches
from vit_jax.data.dataset import Dataset, hold_out, named_splits
from vit_jax.data.rows import Rows
from vit_jax.data.sources import SOURCES, dataset_name, known_shape, load
from vit_jax.data.statistics import STATISTICS, normalization, pixel_statistics

__all__ = [
    "SOURCES",
    "STATISTICS",
    "Dataset",
    "Rows",
    "batches",
    "dataset_name",
    "hold_out",
    "known_shape",
    "load",
    "named_splits",
    "normalization",
    "pixel_statistics",
]
