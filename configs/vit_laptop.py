"""The ViT that two CPU cores train best in 15 minutes, an hour and four hours.

python -m vit_jax.main --config=configs/vit_laptop.py:quick --workdir=runs/quick
python -m vit_jax.main --config=configs/vit_laptop.py --workdir=runs/laptop
python -m vit_jax.main --config=configs/vit_laptop.py:long --workdir=runs/long
"""

from ml_collections import ConfigDict

from vit_jax.config import default_config


def get_config(variant: str = "hour") -> ConfigDict:
    num_epochs = {"quick": 8, "hour": 32, "long": 128}[variant]
    config = default_config()
    config.num_epochs = num_epochs
    config.batch_size = 128
    config.data.source = "tfds"
    config.data.name = "cifar10"
    config.data.validation = 5000
    config.augment.crop = "pad"
    config.augment.crop_padding_pixels = 4
    config.augment.flip = "alternating"
    config.augment.label_smoothing = 0.1
    config.model.name = "vit"
    config.model.layer_init = "pytorch"
    config.model.patch_size = 8
    config.model.width = 192
    config.model.depth = 2
    config.model.num_heads = 3
    config.model.mlp_ratio = 4.0
    config.model.stem = "conv"
    config.model.stem_channels = (64, 128, 256)
    config.model.stem_downsampling = "avg_pool"
    config.model.stem_norm = "batch"
    config.model.pooling = "mean"
    config.optim.name = "muon"
    config.optim.learning_rate = 2e-3
    config.optim.muon_learning_rate = 0.02
    config.optim.momentum = 0.95
    config.optim.nesterov = True
    config.optim.weight_decay = 0.05
    config.optim.ema_decay = 0.99
    config.schedule.name = "linear"
    config.schedule.warmup = "10%"
    return config
