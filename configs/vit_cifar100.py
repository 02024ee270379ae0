"""The recipe of vit_cifar.py for the hundred classes of CIFAR-100.

    python -m vit_jax.main --config=configs/vit_cifar100.py --workdir=runs/cifar100
    python -m vit_jax.main --config=configs/vit_cifar100.py --workdir=runs/cifar100 \
        --config.data.source=cifar_files --config.data.dir=/data/cifar-100-binary

The recipe has 256 tokens from a small convolutional stem, sequence pooling, Muon for
the blocks' matrices and AdamW for the rest, and MixUp or CutMix on every batch during
65% of the training. Twice the rate of stochastic depth is our own choice, because a
class has 500 images instead of 5,000.

Result: not measured on a GPU yet.
"""

from ml_collections import ConfigDict

from vit_jax.config import load_config_file


def get_config() -> ConfigDict:
    config = load_config_file("vit_cifar")
    config.data.name = "cifar100"
    config.model.drop_path = 0.2
    return config
