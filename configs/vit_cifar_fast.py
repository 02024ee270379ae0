"""A ViT whose target is 94% on CIFAR-10's test split in as few seconds as possible.

    python -m vit_jax.main --config=configs/vit_cifar_fast.py --workdir=runs/vit_fast

The recipe has 64 tokens of width 384 from three convolutions, mean pooling, Muon for
the blocks' matrices and AdamW for the rest, flips that alternate between epochs,
RandAugment, and CutMix on half of the batches during the first 60% of the training.
`train_seconds` counts neither evaluation nor compilation. A forecast for an H200
expects 43 s of training, 31 s at best and 68 s at worst (docs/forecast.md).

The layers start as in vit_cifar.py.

Result: not measured on a GPU yet. `experiments.search --study=fast` chooses the
settings on the hold-out, and the same with --final --seeds=5 tests them.
"""

from ml_collections import ConfigDict

from vit_jax.config import default_config


def get_config() -> ConfigDict:
    config = default_config()
    config.num_epochs = 68
    config.batch_size = 1024
    config.eval_batch_size = 1000
    # A multiple of 36, as all 2,988 steps are, so that a program of 36 steps computes
    # none of them in vain.
    config.eval_every = "324 steps"
    config.data.source = "tfds"
    config.data.name = "cifar10"
    config.data.validation = 5000
    config.augment.crop = "pad"
    config.augment.crop_padding_pixels = 4
    config.augment.flip = "alternating"
    config.augment.policy = "randaugment"
    config.augment.randaugment_num_ops = 2
    config.augment.randaugment_magnitude = 7
    config.augment.cutmix_alpha = 1.0
    config.augment.mix_prob = 0.5
    config.augment.mix_until = "60%"
    config.augment.label_smoothing = 0.1
    config.model.name = "vit"
    config.model.layer_init = "pytorch"
    config.model.patch_size = 4
    config.model.width = 384
    config.model.depth = 7
    config.model.num_heads = 6
    config.model.mlp_ratio = 2.0
    config.model.stem = "conv"
    config.model.stem_channels = (64, 128)
    config.model.stem_downsampling = "stride"
    config.model.pooling = "mean"
    config.model.attention_implementation = "cudnn"
    config.optim.name = "muon"
    config.optim.learning_rate = 1e-3
    config.optim.muon_learning_rate = 0.02
    config.optim.momentum = 0.95
    config.optim.nesterov = True
    config.optim.weight_decay = 0.05
    config.optim.ema_decay = 0.98
    config.schedule.name = "linear"
    config.schedule.warmup = "10%"
    return config
