"""The arms, the helpers that they start from, and their runs."""

import argparse
from collections.abc import Mapping
from typing import Any

from experiments.launching.jobs import Job, Jobs
from experiments.launching.options import data_settings, small_settings

_CONFIG = "configs/vit_small_data.py"
# The helpers, each trained once, by the arm that needs it.
HELPERS = {"cifar100": "pretrain", "masked": "mae", "distilled": "teacher"}
# Each arm's config variant, and the setting that names its helper's folder.
ARMS = {
    "scratch": ("scratch", None),
    "cifar100": ("finetune", "pretrained.path"),
    "masked": ("finetune", "pretrained.path"),
    "distilled": ("distilled", "distill.teacher"),
}


def make_jobs(
    jobs: Jobs, options: argparse.Namespace, overrides: Mapping[str, Any]
) -> tuple[dict[str, Job], dict[Job, tuple[str, int]]]:
    """({arm: its helper's run}, {run: (arm, seed)})."""

    def job(name: str, variant: str, settings: Mapping[str, Any]) -> Job:
        config = f"{_CONFIG}:{variant}"
        small = small_settings(config) if options.small else {}
        if small and variant != "pretrain":
            small |= {"data.val_per_class": 20} if variant != "mae" else {}
        if variant == "finetune":
            for key in ("num_steps", "schedule.warmup"):
                if key in small:
                    small |= {f"stages.{i}.{key}": small[key] for i in (0, 1)}
        return Job(name, config, {**small, **settings, **overrides})

    cifar10 = data_settings(options.data)
    cifar100 = data_settings(options.data100) | {"data.name": "cifar100"}
    helpers = {
        arm: job(variant, variant, cifar100 if arm == "cifar100" else cifar10)
        for arm, variant in HELPERS.items()
    }
    arms = {}
    for seed in range(options.seeds):
        for arm, (variant, key) in ARMS.items():
            settings = cifar10 | {"seed": seed}
            if key:
                settings[key] = str(jobs.folder(helpers[arm]).path)
            arms[job(f"{arm}-s{seed}", variant, settings)] = arm, seed
    return helpers, arms
