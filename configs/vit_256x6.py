r"""From a baseline ViT to a stronger one, one change at a time.

    python -m vit_jax.main --config=configs/vit_256x6.py --workdir=runs/vit_256x6
    python -m vit_jax.main --config=configs/vit_256x6.py:baseline \
        --workdir=runs/vit_256x6_baseline

    baseline   20 epochs, constant rate, no augmentation, no decay   reported 66.73%
    augment    baseline, with crops of 4 pixels and flips
    decay      baseline, with weight decay 1e-4
    cosine     baseline, with a cosine down to 0, stepped once an epoch
    longer     baseline, for 50 epochs
    stronger   all of these (the default)                            reported 76.23%

All of them in one table, under both protocols and with one seed each:

    python -m experiments.reproduce --data=CIFAR10_FOLDER --out=runs/vit_256x6 \
        --only='vit_256x6*' --seeds=1

The study selected no checkpoint: it trained on all 50,000 images and scored the test
split once, after the last epoch; --config.data.validation=0
--config.data.select_on=nothing gives this protocol.
Ours, by this protocol, seed 0, 2 CPU cores: :baseline has 63.35% (95% interval 62.40 to
64.29%) after 198 CPU minutes, with 95% of the training images right in the last epoch.
:stronger has 74.36% (73.49 to 75.21%), by this protocol, seed 0, on an H200; its
training loss is above the study's from the sixth epoch on (docs/systems.md). The
others are not measured at full length.

Ours where the study is silent: the baseline's optimizer (AdamW without decay) and rate
(the stronger one's); the same normalisation, by mean and standard deviation 0.5, in
both, since it is not among the changes; and one continuous stream of batches, where an
epoch of the study ended with one of 80 images. The study's baseline did not switch
between training and evaluation, which changes nothing in a model without dropout.
"""

from ml_collections import ConfigDict

from vit_jax.config import default_config

CHANGES = ("augment", "decay", "cosine", "longer")


def get_config(variant: str = "stronger") -> ConfigDict:
    changes = {"baseline": (), "stronger": CHANGES} | {c: (c,) for c in CHANGES}
    changes = changes[variant]
    config = default_config()
    config.num_epochs = 50 if "longer" in changes else 20
    config.batch_size = 128
    config.data.name = "cifar10"
    config.data.mean = (0.5,) * 3
    config.data.std = (0.5,) * 3
    augmented = "augment" in changes
    config.augment.crop = "pad" if augmented else "none"
    config.augment.crop_padding_pixels = 4
    config.augment.flip = "random" if augmented else "none"
    config.model.name = "vit_256x6"
    config.optim.name = "adamw"
    config.optim.learning_rate = 3e-4
    config.optim.weight_decay = 1e-4 if "decay" in changes else 0.0
    config.optim.decay_all = True
    config.schedule.name = "warmup_cosine" if "cosine" in changes else "constant"
    config.schedule.update_every = "epoch"
    config.schedule.warmup = "0 epochs"
    return config
