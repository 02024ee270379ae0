r"""A run of the weights in a file as they are: nothing is trained.

    python -m vit_jax.main --config=configs/own_weights.py:vit_192x9 \
        --config.pretrained.path=weights.pth --workdir=runs/own
    python -m vit_jax.predict --workdir=runs/own photo.jpg --figures=runs/own/photos

The variant names the config whose model and data are taken; further settings of the
model follow as --config.model.width=256 and so on. The file has a ViT under the names
of timm, DINO, Google or Hugging Face (docs/pretrained.md), with the head for the
dataset's classes. The run scores the test split once, and evaluate, explain and compare
take it like any other run. Its only step has the learning rate 0, so that every weight
stays as it is in the file.

Files under timm's names are read with timm's epsilon of LayerNorm, 1e-6. A model that
was built from torch.nn.LayerNorm has 1e-5: give --config.model.norm_eps=1e-5.
"""

from ml_collections import ConfigDict

from vit_jax.config import default_config, load_config_file


def get_config(variant: str = "vit_192x9") -> ConfigDict:
    origin = load_config_file(variant)
    config = default_config()
    config.data = origin.data
    config.model = origin.model
    config.seed = origin.seed
    config.num_steps = 1
    config.batch_size = 8
    config.data.validation = 0
    config.data.val_per_class = None
    config.data.select_on = "nothing"
    config.optim.learning_rate = 0.0
    config.optim.trainable = "head"  # so that the step compiles soon
    config.schedule.warmup = "0 steps"
    config.pretrained.head = "keep"
    return config
