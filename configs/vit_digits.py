"""A small ViT on scikit-learn's digits: 1,797 grey images of 8x8 pixels, no download.

    python -m vit_jax.main --config=configs/vit_digits.py --workdir=runs/digits

Result: 99.16, 99.16 and 98.33% test accuracy with the seeds 0 to 2 (15 to 17 s on 2
CPU cores of an AMD EPYC that other programs used at the same time).
The settings were chosen on the hold-out among six, and then the initialisation among
two: experiments/results/digits_selection.md, initialisation.md and README.md there.
"""

from ml_collections import ConfigDict

from vit_jax.config import default_config


def get_config() -> ConfigDict:
    config = default_config()
    config.num_epochs = 40
    config.batch_size = 64
    config.eval_batch_size = 120
    config.eval_every = "2 epochs"
    config.log_every = "1 epoch"
    config.data.source = "digits"
    config.data.name = "digits"
    config.data.validation = 180
    config.augment.crop = "pad"
    config.augment.crop_padding_pixels = 1
    config.augment.flip = "none"
    config.model.name = "vit"
    config.model.layer_init = "pytorch"
    config.model.patch_size = 2
    config.model.width = 64
    config.model.depth = 4
    config.model.num_heads = 4
    config.model.mlp_ratio = 2.0
    config.model.stem = "conv"
    config.model.position_embedding = "sinusoidal_2d"
    config.model.pooling = "mean"
    config.optim.learning_rate = 3e-3
    config.optim.weight_decay = 0.05
    config.optim.clip_norm = 1.0
    config.schedule.warmup = "5 epochs"
    return config
