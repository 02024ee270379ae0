"""ResNets that train for as long as the ViT of vit_laptop.py: equal cost.

    python -m vit_jax.main --config=configs/resnet_laptop.py --workdir=runs/resnet
    python -m vit_jax.main --config=configs/resnet_laptop.py:small --workdir=runs/small

:quick, the default and :long train a ResNet-18 for 30, 120 and 480 CPU minutes;
:small_quick, :small and :small_long train the same network at a quarter of its width.

All settings but the model and Muon's learning rate are those of vit_laptop.py: Muon
(Jordan, 2024) trains the convolutions and AdamW the rest, with a rate that decays
linearly to zero, crops, flips that alternate between epochs, label smoothing and
averaged parameters.

Results on the test split (10,000 images, scored once), on one of two threads of a slow
AMD EPYC's core, the ViT of vit_laptop.py on the other; :small_long on both cores of a
faster one:

  variant                    epochs  seed  test    held out  CPU minutes
  :small_quick, 2,900 steps  8.2     0     88.06%  88.44%    35
                                     1     87.98%  88.32%    34
                                     2     88.12%  88.20%    43
  :small, 8,900 steps        25.3    0     90.33%  90.04%    125
                                     1     90.27%  90.82%    120
                                     2     90.34%  90.22%    132
  :small_long, 25,300 steps  72.0    0     91.75%  92.04%    215

A ResNet-18 with this recipe has 86.00% (86.32% held out) after 600 steps of :quick, 1.7
epochs in 101 CPU minutes, and 88.42% (89.22%) after 850 steps of the default, 2.4
epochs in 125 CPU minutes, on such threads (seed 0). The other variants are not measured
with this recipe. Muon's rate is the best of 0.02, 0.04 and 0.08 after 1,000 steps:
81.52, 82.86 and 82.98% of the images held out, where SGD has 74.58%. There is no
TrivialAugment, because with it 88.98% of the images held out were right after the steps
of :small (and 88.88% of the test split; one seed), and 90.48% after those of
:small_long (90.33%; one seed). No other setting was chosen by a result.
`experiments.search --study=laptop_resnet` compares the small one's settings on the
hold-out.

SGD is --config.optim.name=sgd --config.optim.momentum=0.9
--config.optim.learning_rate=0.1 --config.optim.weight_decay=5e-4
--config.schedule.warmup=20%. With it :small_quick has 84.63 ± 0.28% after 2,740 steps,
:small with TrivialAugment 89.90 ± 0.27% after 13,500 (three seeds each), and :quick,
the ResNet-18, 63.77% after 25 CPU minutes, in 1.1 epochs: a step of 128 images takes it
3.4 CPU seconds on an AMD EPYC's core, some eight times as long as the small one's.
experiments/results/README.md has all of these.
"""

from ml_collections import ConfigDict

from vit_jax.config import default_config, load_config_file


def get_config(variant: str = "hour") -> ConfigDict:
    length, width = {
        "quick": ("quick", None),
        "hour": ("hour", None),
        "long": ("long", None),
        "small_quick": ("quick", 16),
        "small": ("hour", 16),
        "small_long": ("long", 16),
    }[variant]
    config = load_config_file(f"vit_laptop:{length}")
    config.model = default_config().model
    config.model.name = "resnet18"
    config.model.width = width
    config.optim.muon_learning_rate = 0.08
    return config
