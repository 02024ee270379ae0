"""Every setting of a run: its default, its unit, what it may be.

`python -m vit_jax.main --list_keys` prints this table.
"""

import math

from vit_jax.config.fields import (
    Field,
    choice,
    duration,
    integer,
    integers,
    number,
    numbers,
    share,
    span,
    switch,
    text,
)

_MODEL = "None: as the named model has it."

# "a.b": Field. The order is the order of `--list_keys`.
FIELDS: dict[str, Field] = {
    "seed": integer(0, "Root of every random number of the run, data split apart."),
    "batch_size": integer(128, "Images per optimizer step, over all devices.", 1),
    "num_epochs": number(100.0, "Length of training, in passes over the train split."),
    "num_steps": integer(
        None, "Length in optimizer steps, in place of num_epochs.", 1, optional=True
    ),
    "log_every": duration("50 steps", "Between two lines of training metrics."),
    "eval_every": duration("1 epoch", "Between two evaluations on the val split."),
    "checkpoint_every": duration(
        "1 epoch", "Between two checkpoints; each new best is saved as well."
    ),
    "eval_batch_size": integer(500, "Images per evaluation step, over all devices.", 1),
    "num_devices": integer(0, "Devices of the mesh; 0: all there are."),
    "shard_params": switch(
        False, "Split parameters and optimizer state over the devices (FSDP)."
    ),
    "steps_per_dispatch": integer(
        0, "Steps handed to the device at once; 0: 1 on CPU, many elsewhere."
    ),
    "tensorboard": switch(False, "Also write TensorBoard files."),
    "parameter_overview": switch(False, "Print every parameter at start-up."),
    # ---- data
    "data.source": text("tfds", "tfds, cifar_files, folder or digits."),
    "data.name": text(
        "cifar10", "Of tfds; for cifar_files: cifar10, cifar100 or cifar100_coarse."
    ),
    "data.dir": text(
        "",
        "Folder (or archive, for cifar_files) to read; '': the source's usual place.",
    ),
    "data.archive": text(
        "", "tfds: official archive or folder to prepare CIFAR from, offline."
    ),
    "data.download": switch(True, "May the source fetch what is missing?"),
    "data.placement": choice(
        "auto",
        "Where training images wait: on the device, or on the host, which feeds them "
        "in the background; auto: on the device if half its free memory holds them.",
        "auto",
        "device",
        "host",
    ),
    "data.validation": integer(
        5000, "Train images held out, in proportion to the classes; 0: none."
    ),
    "data.select_on": choice(
        "val",
        "Which accuracy selects the checkpoint that is scored at the end: that on the "
        "images held out, that on the test split (which flatters), or none: the last "
        "step is scored.",
        "val",
        "test",
        "nothing",
    ),
    "data.split_seed": integer(0, "Draws the hold-out and the subsets."),
    "data.train_per_class": integer(
        None, "Images of each class to train on; None: all.", 1, optional=True
    ),
    "data.val_per_class": integer(
        None, "Hold-out images of each class, in place of validation.", 1, optional=True
    ),
    "data.subset_test_per_class": integer(
        0, "Train images of each class for a second test split, 'subset_test'."
    ),
    "data.image_size": integer(
        None,
        "Side in pixels that folder and tfds images are resized to.",
        1,
        optional=True,
    ),
    "data.mean": numbers(None, "Channel means, 0 to 1; None: the dataset's."),
    "data.std": numbers(None, "Channel deviations, 0 to 1; None: the dataset's.", 0.0),
    # ---- augmentation, on the device, training only
    "augment.crop": choice(
        "pad",
        "Random crop after padding, random resized crop, or none.",
        "pad",
        "resized",
        "none",
    ),
    "augment.crop_padding_pixels": integer(4, "Padding of the 'pad' crop, each side."),
    "augment.crop_padding_mode": choice(
        "zero", "What is padded with.", "zero", "reflect", "edge"
    ),
    "augment.crop_min_area": number(
        0.8, "Smallest share of the image a 'resized' crop keeps.", 0.01, 1.0
    ),
    "augment.flip": choice(
        "random",
        "Horizontal flip: by chance, every other epoch, or never.",
        "random",
        "alternating",
        "none",
    ),
    "augment.policy": choice(
        "none",
        "Further image operations.",
        "none",
        "randaugment",
        "trivialaugment",
        "autoaugment",
    ),
    "augment.randaugment_num_ops": integer(2, "Operations per image.", 1),
    "augment.randaugment_magnitude": integer(9, "Bin of 31, 0 (none) to 30."),
    "augment.erase_prob": share(0.0, "Chance of erasing a rectangle."),
    "augment.erase_fill": Field(
        0.0,
        "What the rectangle holds after normalisation: a number, or noise.",
        "a number or 'noise'",
        lambda v: v if v == "noise" else number(0.0, "", -math.inf).convert(v),
    ),
    "augment.erase_area": span(
        (0.02, 0.33), "Smallest and largest share of the image erased.", 1.0
    ),
    "augment.erase_ratio": span(
        (0.3, 3.3), "Smallest and largest height over width of the rectangle."
    ),
    "augment.mixup_alpha": number(0.0, "MixUp's Beta(alpha, alpha); 0: off."),
    "augment.cutmix_alpha": number(0.0, "CutMix's Beta(alpha, alpha); 0: off."),
    "augment.mix_prob": share(1.0, "Chance that a batch or image is mixed."),
    "augment.mix_switch_prob": share(0.5, "Chance of CutMix, where both are on."),
    "augment.mix_per": choice("batch", "One draw for each.", "batch", "image"),
    "augment.mix_until": duration("100%", "When mixing is switched off."),
    "augment.label_smoothing": share(
        0.0, "Share of each target spread evenly over the classes.", below_one=True
    ),
    # ---- model
    "model.name": text("vit", "A row of vit_jax.models.MODELS."),
    "model.dtype": choice(
        "auto",
        "Of the computation (parameters stay float32); auto: bfloat16 on GPU and TPU.",
        "auto",
        "bfloat16",
        "float32",
    ),
    "model.patch_size": integer(None, f"Pixels. {_MODEL}", 1, optional=True),
    "model.width": integer(
        None, f"Of the tokens; ResNet: first stage. {_MODEL}", 1, optional=True
    ),
    "model.depth": integer(None, f"Blocks. {_MODEL}", 1, optional=True),
    "model.num_heads": integer(None, f"Attention heads. {_MODEL}", 1, optional=True),
    "model.mlp_ratio": number(
        None, f"MLP over token width. {_MODEL}", 0.1, optional=True
    ),
    "model.qkv_bias": switch(None, f"Bias in query, key, value. {_MODEL}", True),
    "model.position_embedding": choice(
        None, _MODEL, "learned", "sinusoidal_1d", "sinusoidal_2d", "none", None
    ),
    "model.layer_init": choice(
        None,
        "How layers start: normal (standard deviation 0.02) or as PyTorch does. "
        + _MODEL,
        "normal",
        "pytorch",
        None,
    ),
    "model.token_init": choice(
        None,
        "How class token, registers and learned positions start: normal (standard "
        f"deviation 0.02), standard_normal (1) or zeros. {_MODEL}",
        "normal",
        "standard_normal",
        "zeros",
        None,
    ),
    "model.pooling": choice(
        None, f"From tokens to one vector. {_MODEL}", "cls", "mean", "sequence", None
    ),
    "model.norm_position": choice(
        None, f"LayerNorm before or after each sublayer. {_MODEL}", "pre", "post", None
    ),
    "model.final_norm": switch(None, f"LayerNorm before the head. {_MODEL}", True),
    "model.patch_norm": switch(None, f"LayerNorm on embedded patches. {_MODEL}", True),
    "model.dropout": share(
        None,
        f"After attention's projection and both MLP layers. {_MODEL}",
        below_one=True,
        optional=True,
    ),
    "model.embedding_dropout": share(
        None, f"After positions are added. {_MODEL}", below_one=True, optional=True
    ),
    "model.attention_dropout": share(
        None, f"On attention weights. {_MODEL}", below_one=True, optional=True
    ),
    "model.mlp_output_dropout": share(
        None,
        f"Once more on each MLP sublayer's output. {_MODEL}",
        below_one=True,
        optional=True,
    ),
    "model.drop_path": share(
        None,
        f"Stochastic depth of the last block, linear from 0. {_MODEL}",
        below_one=True,
        optional=True,
    ),
    "model.layer_scale": number(
        None, f"Initial scale of residual branches; 0: none. {_MODEL}", optional=True
    ),
    "model.qk_norm": switch(None, f"LayerNorm on queries and keys. {_MODEL}", True),
    "model.num_registers": integer(None, f"Extra tokens. {_MODEL}", optional=True),
    "model.stem": choice(
        None,
        f"Patch projection, convolutions, or shifted patches. {_MODEL}",
        "patch",
        "conv",
        "shifted_patch",
        None,
    ),
    "model.stem_channels": integers(
        None, f"Of the conv stem's layers before the last, which has width. {_MODEL}"
    ),
    "model.stem_downsampling": choice(
        None,
        f"How the conv stem shrinks its maps. {_MODEL}",
        "max_pool",
        "stride",
        None,
    ),
    "model.local_attention": switch(
        None, f"Learned temperature and masked diagonal (LSA). {_MODEL}", True
    ),
    "model.mimetic_init": switch(
        None, f"Attention starts as a trained one looks. {_MODEL}", True
    ),
    "model.attention_implementation": choice(
        None,
        f"Plain, or of jax.nn, without weights' dropout or LSA. {_MODEL}",
        "plain",
        "xla",
        "cudnn",
        None,
    ),
    "model.activation": choice(None, f"Of the MLP. {_MODEL}", "gelu", "relu", None),
    "model.norm_eps": number(
        None, f"Added to LayerNorm's variances. {_MODEL}", optional=True
    ),
    # ---- optimizer
    "optim.name": choice("adamw", "", "adamw", "adam", "sgd", "muon"),
    "optim.learning_rate": number(1e-3, "The schedule's peak."),
    "optim.b1": share(0.9, "Adam's first moment.", below_one=True),
    "optim.b2": share(0.999, "Adam's second moment.", below_one=True),
    "optim.eps": number(1e-8, "Adam's denominator."),
    "optim.momentum": share(0.9, "SGD's and Muon's.", below_one=True),
    "optim.nesterov": switch(False, "SGD's and Muon's form of momentum."),
    "optim.weight_decay": number(
        0.05, "adamw, muon: decoupled; sgd: added to the gradient; adam: must be 0."
    ),
    "optim.decay_all": switch(
        False, "Decay biases, norms, class token and positions too."
    ),
    "optim.muon_learning_rate": number(0.02, "Muon's peak, for the blocks' matrices."),
    "optim.clip_norm": number(0.0, "Largest global norm of the gradient; 0: off."),
    "optim.num_microbatches": integer(
        1, "Parts each batch is computed in; 1 may be up to 4 for a ViT on one CPU.", 1
    ),
    "optim.ema_decay": share(
        0.0, "Of the parameters' moving average, per step; 0: off.", below_one=True
    ),
    # ---- schedule
    "schedule.name": choice(
        "warmup_cosine",
        "How the rate goes on after the warm-up.",
        "warmup_cosine",
        "linear",
        "constant",
        "plateau",
        "milestones",
    ),
    "schedule.update_every": choice(
        "step",
        "Whether the rate changes from step to step or from epoch to epoch.",
        "step",
        "epoch",
    ),
    "schedule.milestone_epochs": numbers(
        None, "Of milestones: numbers of epochs after which the rate changes.", 0.0
    ),
    "schedule.milestone_scales": numbers(
        None, "Of milestones: the rate over the peak from each of them on.", 0.0
    ),
    "schedule.warmup": duration("5 epochs", "Linear rise from 0 to the peak."),
    "schedule.floor": share(0.0, "Final rate over peak, of cosine and linear."),
    "schedule.plateau_factor": share(0.5, "Multiplies the rate on a plateau."),
    "schedule.plateau_patience": integer(3, "Evaluations without a lower val loss.", 1),
    "schedule.plateau_min_delta": number(1e-4, "Relative fall that counts as lower."),
    # ---- early stopping
    "early_stopping.patience": integer(
        0, "Evaluations without a better val accuracy; 0: off."
    ),
    "early_stopping.target": share(
        None, "Best val accuracy at which to stop; None: off.", optional=True
    ),
    "early_stopping.after": duration("0 steps", "Never stop before this."),
}
