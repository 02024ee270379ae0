r"""Masked autoencoding of a small ViT on CIFAR-10's training images, without labels.

    python -m vit_jax.main --config=configs/vit_mae.py --workdir=runs/mae

He et al. (2022) in a form for 32x32 images: 64 patches of 4x4 pixels, of which 16 are
seen; an encoder of 1.2 million parameters; a decoder of one block. A classifier with
the same `model` settings starts from it, such as that of this file:

    python -m vit_jax.main --config=configs/vit_mae.py --workdir=runs/classifier \
        --config.objective=classification --config.pretrained.path=runs/mae \
        --config.data.select_on=val --config.data.validation=5000

The 6 epochs have 2,344 steps. He et al. train for hundreds of epochs, so more of them
(--config.num_epochs) are the first thing to try.

Result: not measured yet. In a smaller form, vit_small_data.py:mae, 8 epochs did not
help a classifier of 20,000 images (docs/finetuning.md).
"""

from ml_collections import ConfigDict

from vit_jax.config import default_config


def get_config() -> ConfigDict:
    config = default_config()
    config.objective = "masked_autoencoding"
    config.num_epochs = 6
    config.batch_size = 128
    config.data.source = "tfds"
    config.data.name = "cifar10"
    # All training images are used, because no label is.
    config.data.validation = 0
    config.data.select_on = "nothing"
    config.augment.crop = "resized"
    config.augment.crop_min_area = 0.5
    config.augment.flip = "random"
    config.model.name = "vit"
    config.model.layer_init = "pytorch"
    config.model.patch_size = 4
    config.model.width = 128
    config.model.depth = 6
    config.model.num_heads = 4
    config.model.mlp_ratio = 4.0
    config.model.stem = "conv"
    config.model.stem_channels = (32,)
    config.model.stem_downsampling = "stride"
    config.model.pooling = "mean"
    config.mae.decoder_width = 64
    config.mae.decoder_depth = 1
    config.mae.decoder_heads = 2
    config.optim.learning_rate = 1e-3
    config.optim.b2 = 0.95
    config.optim.weight_decay = 0.05
    config.schedule.warmup = "10%"
    return config
