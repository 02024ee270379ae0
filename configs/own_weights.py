r"""A run of the weights in a file as they are: nothing is trained.

    python -m vit_jax.main --config=configs/own_weights.py:vit_192x9 \
        --config.pretrained.path=weights.pth --workdir=runs/own
    python -m vit_jax.predict --workdir=runs/own photo.jpg --figures=runs/own/photos

The variant names the config whose model and data are taken: vit_192x9, vit_192x12,
vit_256x6 or vit_s8_finetune, ViTs of plain patches that normalise before each layer.
Further settings follow as --config.model.width=256 and so on. The file has a ViT under
the names of timm, DINO, Google or Hugging Face (docs/pretrained.md), with the head for
the dataset's classes. Two things no tensor shows: give --config.model.norm_eps=1e-5 for
a model that was built from torch.nn.LayerNorm, since files under timm's names are read
with timm's 1e-6, and --config.data.mean and --config.data.std where it was trained with
others than the config's.

The run scores the test split once, and evaluate, explain, predict and compare take it.
Its only step has the learning rate 0, so that every weight stays as it is in the file;
its training times, and the accuracy that this step logs, mean nothing.
"""

from ml_collections import ConfigDict

from vit_jax.config import default_config, load_config_file


def get_config(variant: str = "vit_192x9") -> ConfigDict:
    origin = load_config_file(variant)
    config = default_config()
    config.data = origin.data
    config.model = origin.model
    config.code = origin.code
    config.seed = origin.seed
    config.num_steps = 1
    config.batch_size = 8
    config.data.validation = 0
    config.data.validation_fraction = 0.0
    config.data.val_per_class = None
    config.data.select_on = "nothing"
    config.optim.learning_rate = 0.0
    config.optim.trainable = "head"  # so that the step compiles soon
    config.schedule.warmup = "0 steps"
    config.pretrained.head = "keep"
    return config
