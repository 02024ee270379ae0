"""Our ResNet-18 for CIFAR-10: the classic recipe, with what is known to help it.

    python -m vit_jax.main --config=configs/resnet_cifar.py --workdir=runs/resnet_cifar

SGD with Nesterov momentum and a cosine, crops, flips that alternate from pass to pass,
label smoothing and averaged parameters.

Result: not measured on a GPU yet; experiments/results/ holds what was measured.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
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
    return config
