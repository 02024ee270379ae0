"""A ViT with a convolutional stem for two CPU cores: 15 minutes, an hour, four hours.

    python -m vit_jax.main --config=configs/vit_laptop.py:quick --workdir=runs/quick
    python -m vit_jax.main --config=configs/vit_laptop.py --workdir=runs/hour
    python -m vit_jax.main --config=configs/vit_laptop.py:long --workdir=runs/long

The variants train for 30, 120 and 480 CPU minutes; how many steps these are is measured
before the first one, best on a quiet machine. On a GPU, --config.time_budget="5
minutes" or --config.num_steps says how long.

Three stages of two 3x3 convolutions, each with BatchNorm and ReLU, and average pooling
leave 16 tokens of an image, which two blocks and mean pooling classify. Muon (Jordan,
2024), whose updates are momentum made orthogonal, trains the matrices of the blocks and
the convolutions, and AdamW the rest. Images are cropped and flipped, and the two longer
variants also have TrivialAugment.

Results on the test split (10,000 images, scored once), of seeds 0 and 1, on one of two
threads of a slow AMD EPYC's core:

  variant                                 test            held out        CPU minutes
  :quick, 2,500 steps, 7.1 epochs         88.69%, 88.66%  88.74%, 88.94%  37, 36

The other variants are not measured yet with this recipe. Without Muon for convolutions,
which AdamW then trains (--config.optim.muon_convolutions=False), rows with ± are the
mean and standard deviation of seeds 0, 1 and 2; the others are of seed 0, or of the
seed that is named. The rows marked * ran on one core of an AMD EPYC (seed 2 of 13,500
steps, and seeds 1 and 2 of plain patches, on one of an Intel Xeon), the others on an
Intel Xeon beside other programs:

  variant                                 test           held out epochs CPU minutes
  :quick, 2,500 steps                   * 85.00 ± 0.04%  85.65%  7.1     34 to 35
  default, 13,500 steps                 * 89.67%         90.10%  38.4    193, on two
                                                                 threads of one core
  default, 13,500 steps, seed 1         * 89.79%         90.76%  38.4    210, the same

Without it and with one layer a stage, of twice the width, whose steps take some 0.9
times as long (--config.model.stem_channels="(64,128,256)"):

  default, augment.policy=none            88.02%         88.40%   27     123
  default, time_budget="90 CPU minutes" * 87.29%         87.30%   27.4   88
  default, 13,500 steps, policy=none    * 88.51%         89.42%   38.4   111
  default, 13,500 steps                 * 88.48 ± 0.41%  88.72%   38.4   105 to 115
  :quick, 2,813 steps                     83.83 ± 0.18%  84.17%   8      35 to 42
  :quick, 2,813 steps, soft teacher     * 84.96 ± 0.33%  85.09%   8      29 to 31
  :quick, 2,290 steps, plain patches    * 74.91 ± 0.96%  74.85%   6.5    20 to 24

Muon trains the convolutions because after 1,000 steps, side by side on two threads,
85.14% of the images held out were right with it, and 77.90% without. Twice Muon's rate
is no better: 80.26% after 600 steps, and 80.74% with this one. Two layers a stage are
there because after 30 CPU minutes, side by side on one core each of an EPYC, 84.16% of
the images held out were right with them, and 82.32% with one of twice the width.

13,500 steps are --config.num_steps=13500 --config.time_budget=None. The teacher is a
small ResNet of as many steps as resnet_laptop.py:small_quick, whose training is not in
the minutes. Plain patches, which a ViT without convolutions has, are
--config.model.stem=patch, patch_size=4, and None for stem_channels, stem_downsampling
and stem_norm. The folders vit_laptop_*, vit_plain_* and muon_trials of
experiments/results have the rest.

TrivialAugment is there because without it 95% of the augmented training images are
right after 27 epochs, against 88% of those held out. It is not shown to help: in both
pairs of one seed, fewer of the images held out are right with it. Whether it does in
longer runs is not on record, and :long is not measured yet. No other setting was chosen
by a result. `experiments.search --study=laptop` compares the settings on the hold-out.
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
    config.model.stem_channels = (32, 32, 64, 64, 128, 128)
    config.model.stem_downsampling = "avg_pool"
    config.model.stem_norm = "batch"
    config.model.pooling = "mean"
    config.optim.name = "muon"
    config.optim.learning_rate = 2e-3
    config.optim.muon_learning_rate = 0.02
    config.optim.muon_convolutions = True
    config.optim.momentum = 0.95
    config.optim.nesterov = True
    config.optim.weight_decay = 0.05
    config.optim.ema_decay = 0.99
    config.schedule.name = "linear"
    config.schedule.warmup = "10%"
    return config
