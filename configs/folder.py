r"""A small ViT for a folder of photos, with one folder inside for each class.

    python -m vit_jax.main --config=configs/folder.py --workdir=runs/photos \
        --config.data.dir=photos

photos/cat/1.jpg, photos/dog/2.jpg and so on; docs/own_photos.md says more. Photos are
resized to cover 64 x 64 pixels and cut to them, a tenth of those to train on is held
out, and classes count the same however many photos they have. With fewer than some
thousand photos of each class, start from pretrained weights (docs/finetuning.md,
"Images of your own").

The model is like that of vit_cifar.py, but smaller; AdamW trains it with a cosine
schedule and TrivialAugment. There is no result, because every folder has its own.
"""

from ml_collections import ConfigDict

from vit_jax.config import default_config


def get_config() -> ConfigDict:
    config = default_config()
    config.num_epochs = 100
    config.batch_size = 64
    config.eval_batch_size = 100
    config.log_every = "1 epoch"
    config.eval_every = "2 epochs"
    config.data.source = "folder"
    config.data.image_size = 64
    config.data.validation = 0
    config.data.validation_fraction = 0.1
    config.augment.crop = "resized"
    config.augment.crop_min_area = 0.5
    config.augment.flip = "random"
    config.augment.policy = "trivialaugment"
    config.augment.label_smoothing = 0.1
    config.model.name = "vit"
    config.model.layer_init = "pytorch"
    config.model.patch_size = 8
    config.model.width = 128
    config.model.depth = 4
    config.model.num_heads = 4
    config.model.mlp_ratio = 2.0
    config.model.stem = "conv"
    config.model.stem_channels = (32, 64)
    config.model.pooling = "mean"
    config.optim.learning_rate = 1e-3
    config.optim.weight_decay = 0.05
    config.optim.clip_norm = 1.0
    config.optim.class_weights = "balanced"
    config.schedule.warmup = "5%"
    return config
