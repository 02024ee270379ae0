"""The table of all settings of a run: default, meaning with unit, allowed values.

`python -m vit_jax.main --list_keys` prints this table. Allowed combinations of settings
are checked in `vit_jax.config.values`.
"""

from vit_jax.config.augment_settings import AUGMENT_FIELDS
from vit_jax.config.fields import (
    Field,
    choice,
    duration,
    fraction,
    integer,
    integers,
    interval,
    number,
    numbers,
    switch,
    text,
    texts,
    time_budget,
)
from vit_jax.config.model_settings import MODEL_FIELDS

MAX_SIDE = 4096  # pixels

# For each value of data.select_on, how the checkpoint that is scored came about.
SELECTED = {
    "val": "selected on images held out from training",
    "test": "selected on the test split, which is optimistic",
    "nothing": "the last one, because nothing was selected",
}

# "a.b": Field. The order is the order of `--list_keys`.
FIELDS: dict[str, Field] = {
    "seed": integer(
        0, "Seed of all randomness except the data splits.", high=2**32 - 1
    ),
    "batch_size": integer(128, "Images per optimizer step, over all devices.", 1),
    "num_epochs": number(
        100.0,
        "Length of training in passes over the training split; each of `stages` has "
        "its own.",
    ),
    "num_steps": integer(
        None,
        "Length of training in optimizer steps; replaces num_epochs unless None.",
        1,
    ),
    "time_budget": time_budget(
        "Length of training as time, without compilation and evaluations; replaces "
        "num_epochs unless None. The speed of a few steps, measured before the first "
        "one, decides num_steps, once.",
    ),
    "stages": Field(
        (),
        "Parts of the training, one after another: for each a mapping of the settings "
        "that differ from the rest, such as num_epochs, optim.trainable or "
        "schedule.name.",
        "a list of mappings",
        tuple,
    ),
    "code": text(
        "",
        "Your own Python file, whose MODELS, SOURCES and AUGMENTATIONS join those of "
        "the package.",
    ),
    "code_sha256": text(
        "",
        "SHA-256 that this file must have; '': any. A run's config has what it had.",
    ),
    "linear_probe": switch(
        False,
        "Only the head is fitted, by logistic regression on the features of the "
        "training images; no step is trained, and stages are left out.",
    ),
    "log_every": duration(
        "50 steps", "Interval between two training log lines.", above_zero=True
    ),
    "eval_every": duration(
        "1 epoch",
        "Interval between two evaluations on the validation split.",
        above_zero=True,
    ),
    "checkpoint_every": interval(
        "2 minutes",
        "Interval between two checkpoints; each new best one and the last are saved as "
        "well.",
    ),
    "eval_batch_size": integer(500, "Images per evaluation step, over all devices.", 1),
    "num_devices": integer(
        0, "Number of devices in the mesh; 0: all devices.", high=2**20
    ),
    "shard_params": switch(
        False, "Parameters and optimizer state are split over the devices (FSDP)."
    ),
    "steps_per_dispatch": integer(
        0,
        "The most optimizer steps of one compiled program; 0: 1 on CPU, many "
        "elsewhere.",
        high=10_000,
    ),
    "tensorboard": switch(False, "Metrics are also written as TensorBoard files."),
    "parameter_overview": switch(False, "A table of all parameters is printed first."),
    "objective": choice(
        ("classification", "masked_autoencoding"),
        "What is learned: the classes; or, without labels, the pixels of hidden "
        "patches (He et al., 2022), whose run a ViT can start from.",
    ),
    # ---- masked autoencoding
    "mae.mask_ratio": fraction(0.75, "Fraction of an image's patches that is hidden."),
    "mae.decoder_width": integer(96, "Width of the decoder's tokens.", 4),
    "mae.decoder_depth": integer(2, "Number of the decoder's blocks.", 0, 200),
    "mae.decoder_heads": integer(3, "Number of the decoder's attention heads.", 1),
    # ---- data
    "data.source": text(
        "tfds",
        "Where images come from: tfds, cifar_files, folder or digits, or one of "
        "config.code.",
    ),
    "data.name": text(
        "",
        "Name of the dataset: any of TFDS; for cifar_files cifar10, cifar100 or "
        "cifar100_coarse; '': cifar10 for these two. A folder has its own name.",
    ),
    "data.dir": text(
        "",
        "Folder (for cifar_files also an archive) to read; '': the source's default.",
    ),
    "data.archive": text(
        "", "Official CIFAR archive or folder from which tfds is prepared offline."
    ),
    "data.download": switch(True, "Missing data may be downloaded."),
    "data.placement": choice(
        ("auto", "device", "host"),
        "Where training images are stored: in device memory, or in host memory, from "
        "which batches are copied in the background; auto: on the device if half of "
        "its free memory holds them.",
    ),
    "data.validation": integer(
        5000, "Number of training images held out for validation, stratified by class."
    ),
    "data.validation_fraction": fraction(
        0.0,
        "Fraction of the training images held out for validation, stratified by class; "
        "above 0 only if data.validation is 0.",
        below_one=True,
    ),
    "data.select_on": choice(
        tuple(SELECTED),
        "Split whose accuracy selects the checkpoint that is tested at the end: the "
        "validation split; the test split, which is optimistically biased; or nothing, "
        "which takes the last step.",
    ),
    "data.split_seed": integer(
        0, "Seed of the data splits and subsets.", high=2**32 - 1
    ),
    "data.train_per_class": integer(
        None, "Training images kept of each class; None: all.", 1
    ),
    "data.val_per_class": integer(
        None,
        "Validation images of each class; replaces data.validation and "
        "data.validation_fraction unless None.",
        1,
    ),
    "data.subset_test_per_class": integer(
        0, "Training images of each class held out as a second test split, subset_test."
    ),
    "data.image_size": integer(
        None,
        "Side in pixels to which folder and tfds images are resized; None: no resize.",
        1,
        MAX_SIDE,
    ),
    "data.resize": integer(
        None,
        "Side in pixels to which images are resized on the device, after augmentation; "
        "None: no resize.",
        1,
        MAX_SIDE,
    ),
    "data.mean": numbers(
        None,
        "Mean of each channel, 0 to 1; None: that of the dataset.",
        1.0,
        with_zero=True,
    ),
    "data.std": numbers(
        None,
        "Standard deviation of each channel, 0 to 1; None: that of the dataset.",
        1.0,
    ),
    **AUGMENT_FIELDS,
    **MODEL_FIELDS,
    # ---- pretrained weights
    "pretrained.path": text(
        "",
        "Weights to start from: a file of timm, DINO or Google, a folder of Hugging "
        "Face, or a run folder; '': none.",
    ),
    "pretrained.head": choice(
        ("fresh", "zero", "keep"),
        "The classifier: newly initialised, all zero, or the weights' own.",
    ),
    "pretrained.positions": choice(
        ("cubic_antialias", "cubic", "dino", "bilinear", "zoom", "origin"),
        "How positions are resized to another grid; origin: the method of the code "
        "that published the weights.",
    ),
    "pretrained.grid": integers(
        None,
        "Rows and columns of the weights' positions, where they are not square.",
        count=2,
    ),
    "pretrained.resize_patches": switch(
        False, "The patch projection may be resized to another patch size (FlexiViT)."
    ),
    "pretrained.allow": texts(
        (),
        "Regular expressions of names that may be missing, extra or of another shape.",
    ),
    # ---- optimizer
    "optim.name": choice(("adamw", "adam", "sgd", "muon"), "Optimizer."),
    "optim.learning_rate": number(1e-3, "Peak of the learning rate."),
    "optim.trainable": text(
        "all",
        'Parameters that are trained: all, head, "last 2 blocks" (and what follows '
        "them), or a regular expression that names begin with, such as block[0-3]/mlp.",
    ),
    "optim.layer_decay": number(
        1.0,
        "Factor of the learning rate from each layer of a ViT to the one before it; "
        "the head has the full rate.",
        0.0,
        1.0,
    ),
    "optim.b1": fraction(
        0.9, "Decay rate of Adam's first-moment estimate.", below_one=True
    ),
    "optim.b2": fraction(
        0.999, "Decay rate of Adam's second-moment estimate.", below_one=True
    ),
    "optim.eps": number(1e-8, "Constant that Adam adds to its denominator."),
    "optim.momentum": fraction(0.9, "Momentum of SGD and Muon.", below_one=True),
    "optim.nesterov": switch(False, "SGD and Muon use Nesterov momentum."),
    "optim.weight_decay": number(
        0.05,
        "Weight decay: decoupled with adamw and muon, added to the gradient with sgd; "
        "must be 0 with adam.",
    ),
    "optim.decay_all": switch(
        False, "Biases, norms, class token and positions are decayed, too."
    ),
    "optim.muon_learning_rate": number(0.02, "Peak of Muon's learning rate."),
    "optim.muon_convolutions": switch(
        False, "Muon updates convolutions, too, and not only the blocks' matrices."
    ),
    "optim.clip_norm": number(
        0.0, "Global norm to which gradients are clipped; 0: no clipping."
    ),
    "optim.num_microbatches": integer(
        1,
        "Microbatches per optimizer step; 1 may become up to 4 for a ViT on one CPU.",
        1,
        4096,
    ),
    "optim.class_weights": choice(
        ("none", "balanced"),
        "Weights of the classes in the loss: none, or balanced, with which all classes "
        "count the same however many images they have.",
    ),
    "optim.ema_decay": fraction(
        0.0,
        "Decay rate per step of the parameters' moving average; 0: no average.",
        below_one=True,
    ),
    # ---- schedule
    "schedule.name": choice(
        ("warmup_cosine", "linear", "constant", "plateau", "milestones"),
        "Course of the learning rate after the warm-up.",
    ),
    "schedule.update_every": choice(
        ("step", "epoch"),
        "The learning rate changes at every step or at every epoch; an epoch has the "
        "rate of its first step, which is 0 at the beginning of a warm-up.",
    ),
    "schedule.milestone_epochs": numbers(
        None, "Epochs after which the milestones schedule changes its rate."
    ),
    "schedule.milestone_scales": numbers(
        None, "Learning rate divided by its peak from each milestone on."
    ),
    "schedule.warmup": duration(
        "5 epochs", "Length of the linear warm-up from 0 to the peak."
    ),
    "schedule.floor": fraction(
        0.0, "Final learning rate divided by the peak, with warmup_cosine and linear."
    ),
    "schedule.plateau_factor": fraction(
        0.5, "Factor by which the plateau schedule reduces the rate."
    ),
    "schedule.plateau_patience": integer(
        3, "Evaluations without a lower validation loss before the rate is reduced.", 1
    ),
    "schedule.plateau_min_delta": fraction(
        1e-4,
        "Smallest relative decrease of the loss that counts as lower.",
        below_one=True,
    ),
    # ---- distillation
    "distill.teacher": text(
        "", "Folder of the run from whose model this one learns; '': no teacher."
    ),
    "distill.kind": choice(
        ("hard", "soft"),
        "What is learned from the teacher: its most probable class, or all its "
        "probabilities.",
    ),
    "distill.alpha": fraction(
        0.5,
        "Weight of the teacher's term in the loss; that of the labels is 1 minus it.",
    ),
    "distill.temperature": number(
        3.0, "Divides the logits of both models before the softmax, with soft.", 0.1
    ),
    "distill.step": integer(
        None,
        "Step of the teacher's checkpoint; None: its best one's, which is filled in.",
    ),
    "distill.sha256": text(
        "", "SHA-256 of the teacher's checkpoint; '': any, and its own is filled in."
    ),
    # ---- early stopping
    "early_stopping.patience": integer(
        0,
        "Evaluations without a higher validation accuracy before training stops; "
        "0: never.",
    ),
    "early_stopping.target": fraction(
        None, "Validation accuracy at which training stops; None: never."
    ),
    "early_stopping.after": duration(
        "0 steps", "Point of training before which it never stops early."
    ),
}
