"""Our ResNet-18 for CIFAR-10: the classic recipe, with what is known to help it.

    python -m vit_jax.main --config=configs/resnet_cifar.py --workdir=runs/resnet_cifar
    python -m vit_jax.main --config=configs/resnet_cifar.py:fast --workdir=runs/fast

SGD with Nesterov momentum and a cosine, crops, flips that alternate from pass to pass,
label smoothing and averaged parameters; meant for 96%. :fast is meant to reach 94% in
as few seconds as it can: 16 epochs of large batches at four times the rate, which falls
to zero along a straight line.

Result: neither is measured on a GPU yet; experiments/results/ holds what was measured.
"""

from ml_collections import ConfigDict


def get_config(variant: str = "best") -> ConfigDict:
    is_fast = {"best": False, "fast": True}[variant]
    config = ConfigDict()
    config.num_epochs = 200
    config.batch_size = 128
    config.data = {"source": "tfds", "name": "cifar10", "validation": 5000}
    config.augment = {"crop": "pad", "flip": "alternating", "label_smoothing": 0.1}
    config.model = {"name": "resnet18"}
    config.optim = {
        "name": "sgd",
        "learning_rate": 0.1,
        "momentum": 0.9,
        "nesterov": True,
        "weight_decay": 5e-4,
        "ema_decay": 0.999,
    }
    config.schedule = {"name": "warmup_cosine", "warmup": "5 epochs"}
    if is_fast:
        config.num_epochs = 16
        config.batch_size = 512
        config.eval_batch_size = 1000
        config.eval_every = "25%"
        config.checkpoint_every = "50%"
        config.optim.update(learning_rate=0.4, ema_decay=0.99)
        config.schedule = {"name": "linear", "warmup": "20%"}
    return config
