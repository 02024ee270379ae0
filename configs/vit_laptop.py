"""A ViT with a convolutional stem for two CPU cores: 15 minutes, an hour, four hours.

    python -m vit_jax.main --config=configs/vit_laptop.py:quick --workdir=runs/quick
    python -m vit_jax.main --config=configs/vit_laptop.py --workdir=runs/hour
    python -m vit_jax.main --config=configs/vit_laptop.py:long --workdir=runs/long

The variants train for 30, 120 and 480 CPU minutes; how many steps these are is measured
before the first one, best on a quiet machine. On a GPU, --config.time_budget="5
minutes" or --config.num_steps says how long.

Three stages of a 3x3 convolution, BatchNorm, ReLU and average pooling leave 16 tokens
of an image, which two blocks and mean pooling classify. Muon trains the matrices of the
blocks and AdamW the rest. Images are cropped and flipped, and the two longer variants
also have TrivialAugment.

Results on the test split (10,000 images, scored once), on an Intel Xeon beside other
programs, and the second on one core of an AMD EPYC, of seed 0, or of seeds 0, 1 and 2
with their standard deviation:

  variant                                 test           held out epochs CPU minutes
  default, --config.augment.policy=none   88.02%         88.40%   27     123
  default, time_budget="90 CPU minutes"   87.29%         87.30%   27.4   88
  :quick, --config.num_steps=2813         83.83 ± 0.18%  84.17%   8      35 to 42

The folders vit_laptop_hour, vit_laptop_trivialaugment and vit_laptop_quick* of
experiments/results have the rest. TrivialAugment is there because without it 95% of the
augmented training images are right in the end, against 88% of those held out; nothing
else was chosen by a result. With it 80% are right, and 1.1 points fewer of those held
out: one seed of each, so at 27 epochs it is not shown to help. Whether it does in
longer runs is not on record, and :long is not measured yet.
`experiments.search --study=laptop` compares the settings on the hold-out.
"""

from ml_collections import ConfigDict

from vit_jax.config import default_config


def get_config(variant: str = "hour") -> ConfigDict:
    config = default_config()
    config.time_budget = {
        "quick": "30 CPU minutes",
        "hour": "2 CPU hours",
        "long": "8 CPU hours",
    }[variant]
    config.batch_size = 128
    config.eval_every = "20%"
    config.checkpoint_every = "20%"
    config.data.source = "tfds"
    config.data.name = "cifar10"
    config.data.validation = 5000
    config.augment.crop = "pad"
    config.augment.crop_padding_pixels = 4
    config.augment.flip = "alternating"
    config.augment.label_smoothing = 0.1
    if variant != "quick":  # 8 epochs are too few to overfit
        config.augment.policy = "trivialaugment"
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
