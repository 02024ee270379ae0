r"""ViT-Tiny with modern regularisation, and a ResNet-18 in the same recipe.

    python -m vit_jax.main --config=configs/vit_192x12.py --workdir=runs/vit_192x12
    python -m vit_jax.main --config=configs/vit_192x12.py:resnet18 \
        --workdir=runs/vit_192x12_resnet18

Reported: ViT 86.70% (best epoch 96), ResNet-18 93.43%, one run each. The study names
a best epoch and so probably chose it on the test split; --config.data.validation=0
--config.data.select_on=test gives this protocol.
Ours, by this protocol on an H200, seed 42: ResNet-18 93.82%
(experiments/results/vit_192x12_resnet18); the ViT was stopped after 86 of 100 epochs,
the best of which has 85.72%.

Ours where the study is silent: the ResNet-18's whole recipe (here the ViT's); no crops
and no flips, since its list of augmentations names none; mixing of every batch, by
MixUp or CutMix with equal probability; the place of one LayerNorm that its parameter
count implies (on the embedded patches); the initialisation. :plain switches all
augmentation off.
"""

from ml_collections import ConfigDict

from vit_jax.config import default_config


def get_config(variant: str = "vit") -> ConfigDict:
    name = {
        "vit": "vit_192x12_patch_norm",
        "plain": "vit_192x12_patch_norm",
        "resnet18": "resnet18",
    }[variant]
    config = default_config()
    config.seed = 42
    config.num_epochs = 100
    config.batch_size = 128
    config.data.name = "cifar10"
    config.augment.crop = "none"
    config.augment.flip = "none"
    if variant != "plain":
        config.augment.policy = "trivialaugment"
        config.augment.mixup_alpha = 0.2
        config.augment.cutmix_alpha = 1.0
        config.augment.erase_prob = 0.25
        config.augment.label_smoothing = 0.1
    config.model.name = name
    if variant != "resnet18":  # the same function; a GPU computes it faster
        config.model.attention_implementation = "cudnn"
    config.optim.name = "adamw"
    config.optim.learning_rate = 1e-3
    config.optim.weight_decay = 0.05
    config.optim.clip_norm = 1.0
    config.schedule.name = "warmup_cosine"
    config.schedule.warmup = "10 epochs"
    config.schedule.floor = 0.01
    return config
