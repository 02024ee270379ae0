"""The studies of `experiments.search`: each arm is one change of a config."""

import dataclasses
from collections.abc import Mapping
from typing import Any

# What --all_images sets.
ALL_IMAGES = {
    "data.validation": 0, "data.validation_fraction": 0.0, "data.select_on": "nothing"
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Study:
    """A config that is to be chosen.

    Attributes:
      question: heading of its record.
      config: the base.
      arms: {name: (the question it answers, its settings)}, the most telling first.
      rivals: configs that --final trains beside it.
      equal_time: whether the rivals train for as long as the config does.
      is_race: whether the time to 94% decides, and not the accuracy.
    """

    question: str
    config: str
    arms: Mapping[str, tuple[str, Mapping[str, Any]]]
    rivals: tuple[str, ...] = ()
    equal_time: bool = False
    is_race: bool = False


_BASE = ("The config as it stands.", {})
_MUON = {
    "optim.name": "muon", "optim.muon_convolutions": True, "optim.learning_rate": 2e-3,
    "optim.muon_learning_rate": 0.08, "optim.momentum": 0.95,
    "optim.weight_decay": 0.05, "schedule.warmup": "10%",
}  # fmt: skip

FLAGSHIP = {
    "base": _BASE,
    "muon_convolutions": ("Should Muon update the stem as well?",
                          {"optim.muon_convolutions": True}),
    "adamw": ("Is Muon worth it?", {"optim.name": "adamw"}),
    "mimetic": ("Does mimetic initialisation help?",
                {"model.mimetic_init": True}),
    "normal_init": ("Is a standard deviation of 0.02 a better start?",
                    {"model.layer_init": "normal"}),
    "mix_100": ("Should mixing stay on to the end?", {"augment.mix_until": "100%"}),
    "mix_80": ("Should mixing end later?", {"augment.mix_until": "80%"}),
    "mix_prob_50": ("Should every batch be mixed?", {"augment.mix_prob": 0.5}),
    "lr_half": ("Is the rate too high?",
                {"optim.learning_rate": 5e-4, "optim.muon_learning_rate": 0.01}),
    "lr_double": ("Is the rate too low?",
                  {"optim.learning_rate": 2e-3, "optim.muon_learning_rate": 0.04}),
    "wide_320": ("Does width pay for its time?",
                 {"model.width": 320, "model.num_heads": 5}),
    "drop_path_0": ("Is drop path needed?", {"model.drop_path": 0.0}),
    "attention_dropout": ("Is attention dropout worth the fused kernel?",
                          {"model.attention_dropout": 0.1,
                           "model.attention_implementation": "plain"}),
    "batch_256": ("Would more, smaller steps be better?", {"batch_size": 256}),
    "batch_1024": ("Would fewer, larger steps do?", {"batch_size": 1024}),
    "no_ema": ("Does averaging help?", {"optim.ema_decay": 0.0}),
    "ema_slow": ("Should the average be longer?", {"optim.ema_decay": 0.998}),
    "randaugment_5": ("Is the policy too strong?",
                      {"augment.randaugment_magnitude": 5}),
    "randaugment_14": ("Is it too weak?", {"augment.randaugment_magnitude": 14}),
    "trivialaugment": ("Is the simpler policy as good?",
                       {"augment.policy": "trivialaugment"}),
    "pad_crop": ("Is a padded crop better than a resized one?",
                 {"augment.crop": "pad"}),
    "max_pool_stem": ("Does the stem want max pooling, as in CCT?",
                      {"model.stem_downsampling": "max_pool"}),
    "three_conv_stem": ("Does a deeper stem help?", {"model.stem_channels": (64, 128)}),
    "patch_4": ("How much do 64 tokens lose, and how much time do they save?",
                {"model.patch_size": 4, "model.stem_channels": (64, 128)}),
    "mean_pooling": ("Is sequence pooling needed?", {"model.pooling": "mean"}),
    "qk_norm": ("Does normalising queries and keys help?", {"model.qk_norm": True}),
    "weight_decay_0.1": ("Is there too little decay?", {"optim.weight_decay": 0.1}),
    "stem_norm": ("Does the stem need BatchNorm?", {"model.stem_norm": "batch"}),
    "epochs_144": ("What does half the length lose?", {"num_epochs": 144}),
    "epochs_216": ("What do three quarters of it lose?", {"num_epochs": 216}),
    "epochs_432": ("What does half as much again win?", {"num_epochs": 432}),
}  # fmt: skip

FAST = {
    "base": _BASE,
    "muon_convolutions": ("Should Muon update the stem as well?",
                          {"optim.muon_convolutions": True}),
    "epochs_96": ("Do fewer epochs reach 94%?", {"num_epochs": 96}),
    "epochs_192": ("How far are more epochs?", {"num_epochs": 192}),
    "adamw": ("Is Muon worth it?", {"optim.name": "adamw"}),
    "normal_init": ("Is a standard deviation of 0.02 a better start?",
                    {"model.layer_init": "normal"}),
    "lr_double": ("Is the rate too low?",
                  {"optim.learning_rate": 4e-3, "optim.muon_learning_rate": 0.04}),
    "batch_256": ("Would more, smaller steps be better?", {"batch_size": 256}),
    "batch_1024": ("Would fewer, larger steps do?", {"batch_size": 1024}),
    "no_mixing": ("Is MixUp worth it in so short a training?",
                  {"augment.mixup_alpha": 0.0}),
    "cutmix": ("Would CutMix do more?",
               {"augment.mixup_alpha": 0.0, "augment.cutmix_alpha": 1.0,
                "augment.mix_prob": 0.5, "augment.mix_until": "60%"}),
    "no_policy": ("Is TrivialAugment worth it?", {"augment.policy": "none"}),
    "random_flip": ("Does alternating the flip help?", {"augment.flip": "random"}),
    "stem_narrow": ("Is a narrower stem faster to 94%?",
                    {"model.stem_channels": (48, 48, 96, 96, 192, 192)}),
    "stem_three": ("Does one layer a stage do?",
                   {"model.stem_channels": (64, 128, 256)}),
    "depth_4": ("Are more blocks worth their time?", {"model.depth": 4}),
    "tokens_64": ("Are 64 tokens worth their time?",
                  {"model.patch_size": 4, "model.stem_channels": (64, 64, 128, 128)}),
}  # fmt: skip

RESNET = {
    "base": _BASE,
    "muon": ("Is Muon better than SGD?", _MUON),
    "cutmix": ("Does CutMix on half of the batches help?",
               {"augment.cutmix_alpha": 1.0, "augment.mix_prob": 0.5}),
    "erase": ("Does erasing?", {"augment.erase_prob": 0.25}),
    "batch_512": ("What do larger steps lose?",
                  {"batch_size": 512, "optim.learning_rate": 0.4}),
    "no_ema": ("Does averaging help?", {"optim.ema_decay": 0.0}),
    "random_flip": ("Does alternating the flip help?", {"augment.flip": "random"}),
    "lr_half": ("Is the rate too high?", {"optim.learning_rate": 0.05}),
    "epochs_100": ("What does half the length lose?", {"num_epochs": 100}),
}  # fmt: skip

RESNET_FAST = {
    "base": _BASE,
    "muon": ("Is Muon better than SGD?", _MUON),
    "epochs_12": ("Do fewer epochs reach 94%?", {"num_epochs": 12}),
    "epochs_24": ("How far are more epochs?", {"num_epochs": 24}),
    "lr_half": ("Is the rate too high?", {"optim.learning_rate": 0.2}),
    "batch_256": ("Would more, smaller steps be better?",
                  {"batch_size": 256, "optim.learning_rate": 0.2}),
    "width_32": ("Is a narrower network faster to 94%?", {"model.width": 32}),
}  # fmt: skip

# Every arm trains for the same processor time, so one that is slower has fewer steps.
LAPTOP = {
    "base": _BASE,
    "stem_stride": ("Is a stem that halves by stride, and is cheaper, as good?",
                    {"model.stem_downsampling": "stride"}),
    "stem_wide": ("Is a stem of one and a half times the width?",
                  {"model.stem_channels": (48, 48, 96, 96, 192, 192)}),
    "stem_three": ("Does one layer a stage serve better, of twice the width?",
                   {"model.stem_channels": (64, 128, 256)}),
    "stem_no_norm": ("Does the stem need BatchNorm?",
                     {"model.stem_norm": "none",
                      "model.stem_channels": (32, 32, 64, 64, 128),
                      "model.stem_init": None}),
    "stem_random": ("Does the stem learn faster when it starts with cosine filters?",
                    {"model.stem_init": "random"}),
    "tokens_64": ("Are 64 tokens worth their time?",
                  {"model.patch_size": 4, "model.stem_channels": (32, 32, 64, 64)}),
    "plain": ("How far does a plain ViT get, of patches and no convolutions?",
              {"model.stem": "patch", "model.stem_channels": None,
               "model.stem_downsampling": None, "model.stem_norm": None,
               "model.stem_init": None,
               "model.patch_size": 4, "model.depth": 6, "model.mlp_ratio": 2.0}),
    "depth_4": ("Do two blocks more help?", {"model.depth": 4}),
    "adamw": ("Is Muon worth it?", {"optim.name": "adamw"}),
    "muon_blocks": ("Need Muon update the stem?", {"optim.muon_convolutions": False}),
    "lr_half": ("Is the rate too high?",
                {"optim.learning_rate": 1e-3, "optim.muon_learning_rate": 0.01}),
    "lr_double": ("Is the rate too low?",
                  {"optim.learning_rate": 4e-3, "optim.muon_learning_rate": 0.04}),
    "batch_64": ("Would more, smaller steps be better?", {"batch_size": 64}),
    "warmup_25": ("Should the warm-up be longer?", {"schedule.warmup": "25%"}),
    "no_smoothing": ("Does label smoothing help?", {"augment.label_smoothing": 0.0}),
    "mixup": ("Is there room for a little MixUp?", {"augment.mixup_alpha": 0.2}),
    "no_ema": ("Does averaging help?", {"optim.ema_decay": 0.0}),
}  # fmt: skip

LAPTOP_RESNET = {
    "base": _BASE,
    "width_32": ("Is a network of twice the width better in this time?",
                 {"model.width": 32}),
    "width_64": ("Is the ResNet-18?", {"model.width": 64}),
    "sgd": ("Is Muon better than SGD?",
            {"optim.name": "sgd", "optim.learning_rate": 0.1, "optim.momentum": 0.9,
             "optim.weight_decay": 5e-4, "schedule.warmup": "20%"}),
    "lr_half": ("Is the rate too high?",
                {"optim.learning_rate": 1e-3, "optim.muon_learning_rate": 0.04}),
    "lr_double": ("Is the rate too low?",
                  {"optim.learning_rate": 4e-3, "optim.muon_learning_rate": 0.16}),
    "batch_64": ("Would more, smaller steps be better?", {"batch_size": 64}),
    "no_smoothing": ("Does label smoothing help?", {"augment.label_smoothing": 0.0}),
    "no_ema": ("Does averaging help?", {"optim.ema_decay": 0.0}),
}  # fmt: skip


def _images(**epochs: int) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """A ninth and a third of the 45,000 training images, for as many steps.

    `epochs` are the config's lengths by setting, "__" in place of the point.
    """
    arms = {}
    for n, factor in ((500, 9), (1500, 3)):
        lengths = {k.replace("__", "."): factor * v for k, v in epochs.items()}
        settings: dict[str, Any] = {
            key: value if key == "num_epochs" else f"{value} epochs"
            for key, value in lengths.items()
        }
        question = f"What do {10 * n:,} training images lose?"
        arms[f"images_{10 * n}"] = (question, {"data.train_per_class": n} | settings)
    return arms


# What the study tried on the way, and its question how the number of training images
# changes the picture.
VIT_192X9 = {
    "base": _BASE,
    "depth_7": ("Do two blocks fewer do?", {"model.depth": 7}),
    "depth_12": ("Do three blocks more help?", {"model.depth": 12}),
    "heads_4": ("Are fewer, wider heads as good?", {"model.num_heads": 4}),
    "heads_12": ("Are more, narrower ones better?", {"model.num_heads": 12}),
    "width_384": ("Is twice the width better?", {"model.width": 384}),
    "lr_half": ("Is the rate too high?", {"optim.learning_rate": 5e-4}),
    "lr_triple": ("Is the rate too low?", {"optim.learning_rate": 3e-3}),
    "randaugment_3": ("Do three operations help?", {"augment.randaugment_num_ops": 3}),
    **_images(num_epochs=100, eval_every=1, schedule__warmup=5,
              early_stopping__after=51),
}  # fmt: skip
VIT_192X9_RESNET18 = {"base": _BASE, **_images(num_epochs=50, eval_every=1)}

# The base has patches of 4, depth 6, 8 heads and learned positions. 12 heads would not
# divide the width of 128; 16 do.
VIT_128X6 = {
    "base": _BASE,
    "sinusoidal": ("Need positions be learned?",
                   {"model.position_embedding": "sinusoidal_1d"}),
    "patch_2": ("What do 256 tokens win, and what do they cost?",
                {"model.patch_size": 2}),
    "patch_8": ("What do 16 tokens lose?", {"model.patch_size": 8}),
    "depth_4": ("Are six blocks needed?", {"model.depth": 4}),
    "depth_8": ("Do two blocks more help?", {"model.depth": 8}),
    "depth_12": ("Does twice the depth, with normalisation after each sublayer?",
                 {"model.depth": 12}),
    "heads_4": ("Are fewer, wider heads as good?", {"model.num_heads": 4}),
    "heads_16": ("Are more, narrower ones better?", {"model.num_heads": 16}),
}  # fmt: skip

DIGITS = {
    "base": _BASE,
    "lr_1e-3": ("Is the rate too high?", {"optim.learning_rate": 1e-3}),
    "no_crop": ("Do random crops help?", {"augment.crop": "none"}),
    "dropout": ("Does dropout?", {"model.dropout": 0.1}),
    "learned_positions": ("Must positions be given?",
                          {"model.position_embedding": "learned"}),
    "patch_stem": ("Is the convolutional stem needed?", {"model.stem": "patch"}),
    "normal_init": ("Is a standard deviation of 0.02 a better start?",
                    {"model.layer_init": "normal"}),
}  # fmt: skip

STUDIES = {
    "flagship": Study(
        "The best ViT in 8 minutes on one GPU", "configs/vit_cifar.py", FLAGSHIP,
        rivals=("configs/resnet_cifar.py",), equal_time=True,
    ),
    "fast": Study(
        "The ViT that is soonest at 94%", "configs/vit_cifar_fast.py:short", FAST,
        rivals=("configs/resnet_cifar.py:fast",), is_race=True,
    ),
    "resnet": Study("The best ResNet-18", "configs/resnet_cifar.py", RESNET),
    "resnet_fast": Study(
        "The ResNet-18 that is soonest at 94%", "configs/resnet_cifar.py:fast",
        RESNET_FAST, is_race=True,
    ),
    "vit_192x9": Study(
        "Depth, heads, width, rate and number of images of study A's ViT",
        "configs/vit_192x9.py", VIT_192X9,
    ),
    "vit_192x9_resnet18": Study(
        "The number of images of study A's ResNet-18", "configs/vit_192x9.py:resnet18",
        VIT_192X9_RESNET18,
    ),
    "vit_128x6": Study(
        "Patches, depth, heads and positions of a small ViT", "configs/vit_128x6.py",
        VIT_128X6,
    ),
    "laptop": Study(
        "The best ViT in 30 minutes of processor time",
        "configs/vit_laptop.py:quick", LAPTOP,
        rivals=("configs/resnet_laptop.py:small_quick",),
    ),
    "laptop_resnet": Study(
        "The best ResNet in 30 minutes of processor time",
        "configs/resnet_laptop.py:small_quick", LAPTOP_RESNET,
    ),
    "digits": Study(
        "Settings of the small ViT on digits", "configs/vit_digits.py", DIGITS
    ),
}  # fmt: skip
