"""The recipes of vit_cifar.py and vit_laptop.py for the hundred classes of CIFAR-100.

    python -m vit_jax.main --config=configs/vit_cifar100.py --workdir=runs/full
    python -m vit_jax.main --config=configs/vit_cifar100.py:laptop --workdir=runs/c100 \
        --config.data.source=cifar_files --config.data.dir=/data/cifar-100-binary

The default has 256 tokens from a small convolutional stem, sequence pooling, Muon for
the blocks' matrices and AdamW for the rest, and MixUp or CutMix on every batch during
65% of the training. Twice the rate of stochastic depth is our own choice, because a
class has 500 images instead of 5,000. `:laptop` is vit_laptop.py:quick, for 30 minutes
of processor time.

Result: the default is not measured on a GPU yet.
"""

from ml_collections import ConfigDict

from vit_jax.config import load_config_file


def get_config(variant: str = "gpu") -> ConfigDict:
    base = {"gpu": "vit_cifar", "laptop": "vit_laptop:quick"}[variant]
    config = load_config_file(base)
    config.data.name = "cifar100"
    if variant == "gpu":
        config.model.drop_path = 0.2
    return config
