r"""A small ViT on 2,000 images of each class, and what helps it.

    scratch    the subset alone (the default)
    finetune   the subset, in two stages, from the weights of the run in
               runs/pretrain, or of another one: --config.pretrained.path=RUN
    distilled  the subset, with a teacher: --config.distill.teacher=RUN
    pretrain   CIFAR-100, for `finetune`
    mae        masked autoencoding of all 50,000 images without labels, for `finetune`
    teacher    a ResNet on the subset, for `distilled`

    python -m experiments.transfer --data=CIFAR10_FOLDER --data100=CIFAR100_FOLDER \
        --out=runs/transfer

trains the helpers (`pretrain`, `mae`, `teacher`) once and the others with three seeds,
tests each run once, and compares the others with `scratch` in pairs.

The subset is that of `vit_s8_finetune.py`: 2,000 images of each class to train on and
500 to select on. The model has a convolutional stem and 16 tokens, and is small enough
for two CPU cores.
Ours, test accuracy (3 seeds): scratch 62.38 ± 1.03%, from CIFAR-100 65.81 ± 0.10%, from
masked autoencoding 59.25 ± 0.13%, distilled 64.34 ± 0.63% (docs/finetuning.md).
"""

from ml_collections import ConfigDict

from vit_jax.config import default_config


def get_config(variant: str = "scratch") -> ConfigDict:
    config = {
        "scratch": _on_subset,
        "finetune": _finetune,
        "distilled": _on_subset,
        "pretrain": _pretrain,
        "mae": _masked,
        "teacher": _teacher,
    }[variant]()
    if variant == "distilled":
        config.distill.alpha = 0.5
        config.distill.kind = "soft"
    return config


def _base() -> ConfigDict:
    config = default_config()
    config.num_epochs = 12
    config.batch_size = 128
    config.eval_every = "2 epochs"
    config.data.source = "tfds"
    config.data.name = "cifar10"
    config.augment.crop = "pad"
    config.augment.flip = "random"
    config.augment.label_smoothing = 0.1
    config.model.name = "vit"
    config.model.layer_init = "pytorch"
    config.model.patch_size = 8
    config.model.width = 96
    config.model.depth = 4
    config.model.num_heads = 3
    config.model.stem = "conv"
    config.model.stem_channels = (32, 64)
    config.model.stem_downsampling = "stride"
    config.model.pooling = "mean"
    config.optim.learning_rate = 1e-3
    config.schedule.warmup = "10%"
    return config


def _on_subset() -> ConfigDict:
    config = _base()
    config.data.split_seed = 42
    config.data.train_per_class = 2000
    config.data.val_per_class = 500
    config.data.subset_test_per_class = 500
    return config


def _finetune() -> ConfigDict:
    config = _on_subset()
    config.pretrained.path = "runs/pretrain"
    config.num_epochs = default_config().num_epochs  # Each stage has its own.
    config.stages = (
        {"num_epochs": 2, "optim.trainable": "head"},
        {"num_epochs": 10, "optim.layer_decay": 0.8},
    )
    return config


def _pretrain() -> ConfigDict:
    config = _base()
    config.data.name = "cifar100"
    config.num_epochs = 8
    return config


def _masked() -> ConfigDict:
    config = _base()
    config.objective = "masked_autoencoding"
    config.num_epochs = 8
    # All training images are used, because no label is.
    config.data.validation = 0
    config.data.select_on = "nothing"
    config.augment.label_smoothing = 0.0
    config.mae.mask_ratio = 0.5
    config.mae.decoder_width = 48
    config.mae.decoder_depth = 1
    config.mae.decoder_heads = 2
    config.optim.b2 = 0.95
    return config


def _teacher() -> ConfigDict:
    config = _on_subset()
    config.model = default_config().model
    config.model.name = "resnet18"
    config.model.width = 16
    config.augment.flip = "alternating"
    config.optim.name = "sgd"
    config.optim.nesterov = True
    config.optim.learning_rate = 0.1
    config.optim.weight_decay = 5e-4
    return config
