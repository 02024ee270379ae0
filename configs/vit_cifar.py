"""Our best ViT for CIFAR-10 from scratch, meant for about 8 minutes on one fast GPU.

    python -m vit_jax.main --config=configs/vit_cifar.py --workdir=runs/vit_cifar

256 tokens from a small convolutional stem, sequence pooling as in Compact Transformers
(Hassani et al., 2021), Muon for the blocks' matrices and AdamW for the rest, MixUp or
CutMix on every batch until two thirds of the training are done.

Meant for 95% and more. Result: not measured on a GPU yet. `experiments.search
--study=flagship` is to choose its settings on the hold-out, and the same with --final
to test them, beside a ResNet-18 that trains for as long.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    config = ConfigDict()
    config.num_epochs = 200
    config.batch_size = 512
    config.eval_every = "5 epochs"
    config.checkpoint_every = "10 epochs"
    config.data = {"source": "tfds", "name": "cifar10", "validation": 5000}
    config.augment = {
        "crop": "resized",
        "crop_min_area": 0.8,
        "flip": "random",
        "policy": "randaugment",
        "randaugment_num_ops": 2,
        "randaugment_magnitude": 9,
        "mixup_alpha": 0.8,
        "cutmix_alpha": 1.0,
        "mix_until": "65%",
        "label_smoothing": 0.1,
    }
    config.model = {
        "name": "vit",
        "patch_size": 2,
        "width": 256,
        "depth": 7,
        "num_heads": 4,
        "mlp_ratio": 2.0,
        "stem": "conv",
        "stem_channels": (64,),
        "stem_downsampling": "stride",
        "pooling": "sequence",
        "attention_dropout": 0.1,
        "drop_path": 0.1,
    }
    config.optim = {
        "name": "muon",
        "learning_rate": 1e-3,
        "muon_learning_rate": 0.02,
        "momentum": 0.95,
        "nesterov": True,
        "weight_decay": 0.05,
        "ema_decay": 0.99,
    }
    config.schedule = {"name": "linear", "warmup": "5%"}
    return config
