"""Every config on real CIFAR-10: its settings, its size and its first two steps."""

import json
import os
import pathlib

import jax
import jax.numpy as jnp
import pytest

from tests.training.made import batch_of
from vit_jax import data, models
from vit_jax.config import apply_overrides, flatten, load_config_file
from vit_jax.config.durations import to_steps
from vit_jax.training import optim
from vit_jax.training.experiment import make_experiment
from vit_jax.training.plan import make_plan

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"
GOLDEN = json.loads(pathlib.Path(__file__).with_name("recipe_metrics.json").read_text())
TRAIN, BATCH = 45_000, 8

VIT, RESNET = 4_771_082, 11_173_962
CROPS = {"augment.crop": "pad", "augment.crop_padding_pixels": 4,
         "augment.flip": "random"}  # fmt: skip
PLAIN = {"augment.crop": "none", "augment.flip": "none", "augment.policy": "none"}
REGULARIZED = {
    "augment.crop": "none", "augment.flip": "none", "augment.policy": "trivialaugment",
    "augment.mixup_alpha": 0.2, "augment.cutmix_alpha": 1.0, "augment.mix_prob": 1.0,
    "augment.erase_prob": 0.25, "augment.label_smoothing": 0.1,
}  # fmt: skip
TINY = {
    "num_epochs": 100.0, "batch_size": 128, "optim.name": "adamw", "optim.b1": 0.9,
    "optim.b2": 0.999, "optim.learning_rate": 1e-3, "optim.weight_decay": 0.05,
    "optim.decay_all": False, "optim.clip_norm": 1.0, "schedule.name": "warmup_cosine",
    "schedule.warmup": "10 epochs", "schedule.floor": 0.01, "seed": 42,
}  # fmt: skip
BASELINE = {
    "num_epochs": 20.0, "batch_size": 128, "optim.name": "adamw",
    "optim.learning_rate": 3e-4, "schedule.name": "constant", **PLAIN,
    "data.mean": (0.5,) * 3, "data.std": (0.5,) * 3,
}  # fmt: skip
POST_NORM = {"batch_size": 64, "optim.name": "adam", **PLAIN}

# Config: (number of parameters, the settings that its study states).
RECIPES = {
    "vit_cifar.py": (3_907_786, {"optim.name": "muon", "schedule.name": "linear"}),
    "vit_cifar_fast.py": (2_798_794, {
        "optim.name": "muon", "optim.muon_convolutions": True, "num_epochs": 256.0,
        "schedule.name": "linear", "batch_size": 512,
        "augment.flip": "alternating", "augment.mixup_alpha": 0.2,
    }),
    "vit_cifar_fast.py:short": (2_798_794, {"optim.muon_convolutions": False}),
    "vit_mae.py": (1_297_360, {
        "objective": "masked_autoencoding", "mae.mask_ratio": 0.75,
        "data.select_on": "nothing", "data.validation": 0,
    }),
    "vit_laptop.py": (1_207_338, {
        "optim.name": "muon", "optim.muon_convolutions": True,
        "model.stem_init": "cosine",
        "schedule.name": "linear", "time_budget": "2 CPU hours",
    }),
    "resnet_laptop.py": (RESNET, {
        "optim.name": "muon", "optim.muon_convolutions": True,
        "time_budget": "2 CPU hours",
    }),
    "resnet_laptop.py:small": (701_466, {"time_budget": "2 CPU hours"}),
    "resnet_cifar.py": (
        RESNET, {"optim.nesterov": True, "augment.flip": "alternating"}
    ),
    "resnet_cifar.py:fast": (
        RESNET, {"optim.learning_rate": 0.4, "schedule.name": "linear"}
    ),
    "resnet_cifar.py:muon": (
        RESNET, {"optim.name": "muon", "optim.muon_convolutions": True}
    ),
    "vit_192x9.py": (4_028_170, {
        **CROPS, "seed": 42, "model.name": "vit_192x9",
        "augment.policy": "randaugment", "augment.randaugment_num_ops": 2,
        "augment.randaugment_magnitude": 9, "num_epochs": 100.0, "batch_size": 128,
        "optim.name": "adamw", "optim.learning_rate": 1e-3, "optim.weight_decay": 0.05,
        "optim.clip_norm": 0.0, "optim.decay_all": True,
        "schedule.name": "warmup_cosine", "schedule.floor": 0.0,
        "schedule.warmup": "5 epochs", "early_stopping.target": 0.9,
        "early_stopping.after": "51 epochs",
    }),
    "vit_192x9.py:resnet18": (RESNET, {
        **CROPS, "augment.policy": "none", "num_epochs": 50.0, "batch_size": 128,
        "optim.name": "sgd", "optim.learning_rate": 0.1, "optim.momentum": 0.9,
        "optim.weight_decay": 5e-4, "optim.decay_all": True,
        "schedule.name": "plateau", "seed": 42,
    }),
    "vit_192x9.py:resnet18_milestones": (RESNET, {
        "schedule.name": "milestones", "schedule.milestone_epochs": (25.0, 40.0),
        "schedule.milestone_scales": (0.5, 0.1), "optim.learning_rate": 0.1,
    }),
    "vit_128x6.py": (1_205_642, POST_NORM | {"model.position_embedding": "learned"}),
    "vit_128x6.py:sinusoidal": (
        1_197_322, POST_NORM | {"model.position_embedding": "sinusoidal_1d"}
    ),
    "vit_192x12.py": (5_356_234, TINY | REGULARIZED),
    "vit_192x12.py:plain": (5_356_234, TINY | PLAIN),
    "vit_192x12.py:resnet18": (RESNET, TINY | REGULARIZED),
    "vit_s8_finetune.py": (21_379_210, {
        **CROPS, "seed": 42, "batch_size": 128, "augment.policy": "none",
        "augment.mixup_alpha": 1.0, "augment.cutmix_alpha": 1.0,
        "augment.mix_prob": 1.0, "augment.mix_switch_prob": 0.5,
        "augment.label_smoothing": 0.1, "data.std": (0.2023, 0.1994, 0.2010),
        "data.train_per_class": 2000, "data.val_per_class": 500,
        "data.subset_test_per_class": 500, "data.split_seed": 42,
        "data.select_on": "nothing", "optim.learning_rate": 3e-5,
        "optim.weight_decay": 0.05, "optim.decay_all": True,
        "schedule.name": "warmup_cosine", "schedule.update_every": "epoch",
        "stages": (
            {"num_epochs": 10.0, "optim.trainable": "head",
             "optim.learning_rate": 3e-4, "schedule.name": "constant"},
            {"num_epochs": 90.0, "early_stopping.patience": 8},
        ),
    }),
    "vit_small_data.py": (524_650, {
        "data.train_per_class": 2000, "data.val_per_class": 500,
        "data.subset_test_per_class": 500, "data.split_seed": 42,
    }),
    "vit_256x6.py": (VIT, {
        **CROPS, "num_epochs": 50.0, "batch_size": 128, "data.mean": (0.5,) * 3,
        "data.std": (0.5,) * 3, "optim.name": "adamw", "optim.learning_rate": 3e-4,
        "optim.weight_decay": 1e-4, "optim.decay_all": True,
        "schedule.name": "warmup_cosine", "schedule.update_every": "epoch",
    }),
    "vit_256x6.py:baseline": (VIT, BASELINE | {"optim.weight_decay": 0.0}),
    "vit_256x6.py:augment": (VIT, BASELINE | CROPS),
    "vit_256x6.py:decay": (VIT, BASELINE | {"optim.weight_decay": 1e-4}),
    "vit_256x6.py:cosine": (VIT, BASELINE | {"schedule.name": "warmup_cosine"}),
    "vit_256x6.py:longer": (VIT, BASELINE | {"num_epochs": 50.0}),
}  # fmt: skip

# The last variant of each size in a file.
SIZES = {(name.partition(":")[0], RECIPES[name][0]): name for name in RECIPES}

# One of each kind of step; the others differ by the values of their settings.
STEPPED = [
    "vit_cifar.py", "vit_cifar_fast.py", "vit_mae.py", "resnet_cifar.py",
    "vit_192x12.py", "vit_s8_finetune.py", "vit_small_data.py",
]  # fmt: skip


def load(name):
    return load_config_file(str(CONFIGS / name))


def test_every_config_file_is_here():
    # On other images, or without a recipe.
    others = {"vit_digits.py", "folder.py", "vit_cifar100.py", "own_weights.py"}
    files = {path.name for path in CONFIGS.glob("*.py")} - others
    assert {name.partition(":")[0] for name in RECIPES} == files


@pytest.mark.parametrize("name", RECIPES)
def test_settings_are_the_studys(name):
    settings = dict(flatten(load(name)))
    for key, value in RECIPES[name][1].items():
        assert settings[key] == value, key


@pytest.mark.parametrize("name", RECIPES)
def test_rates_at_the_corners_of_the_real_length(name):
    config = load(name)
    plan = make_plan(config, TRAIN)
    peak, floor = config.optim.learning_rate, config.schedule.floor
    schedule = optim.make_schedule(
        config.schedule, peak=peak, total_steps=plan.total_steps,
        steps_per_epoch=plan.steps_per_epoch,
    )  # fmt: skip
    warmup = to_steps(
        config.schedule.warmup,
        steps_per_epoch=plan.steps_per_epoch,
        total_steps=plan.total_steps,
    )
    decays = config.schedule.name in ("warmup_cosine", "linear")
    assert float(schedule(0)) == pytest.approx(0 if warmup else peak)
    assert float(schedule(warmup)) == pytest.approx(peak)
    end = floor * peak if decays else peak
    if config.schedule.milestone_scales:
        end = config.schedule.milestone_scales[-1] * peak
    # The last epoch may end a fraction of a step later, and its rate changes only then.
    after = plan.total_steps + (config.schedule.update_every == "epoch")
    assert float(schedule(after)) == pytest.approx(end, abs=1e-9)


def real_images(folder):
    arguments = ["--config.data.source=cifar_files", f"--config.data.dir={folder}"]
    return data.load(apply_overrides(load("vit_cifar.py"), arguments).data)


@pytest.fixture(scope="module")
def splits(cifar10_dir):
    return real_images(cifar10_dir)


def first_two_steps(name, splits):
    """(parameters before and after, metrics of each step) with batches of 8.

    A ViT has two of its blocks, because each more is compiled for seconds.
    """
    config = load(name)
    config.batch_size, config.num_devices, config.model.dtype = BATCH, 1, "float32"
    if config.model.name.startswith("vit"):
        config.model.depth = 2
    if config.time_budget:  # Only a training measures how many steps that is.
        config.num_steps = 1000
    experiment = make_experiment(config, splits)
    state = experiment.init_state()
    step = jax.jit(experiment.train_step)
    states, metrics = [state], []
    for number in range(2):
        indices = data.batches.train_indices(TRAIN, BATCH, config.seed, number)
        batch = batch_of(experiment, indices)
        state, scores = step(state, batch, experiment.root_key, jnp.float32(1))
        states.append(state)
        metrics.append({key: float(value) for key, value in scores.items()})
    return [state.params for state in states], metrics


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES.values())
def test_parameters_at_full_size(name, splits, monkeypatch):
    # Nothing is trained, so this machine need not have the memory for it.
    monkeypatch.setattr("vit_jax.parallel.mesh.free_bytes", lambda devices: 2**50)
    config = load(name)
    config.num_devices = 1
    if config.time_budget:
        config.num_steps = 1000
    assert len(splits["train"]) == TRAIN
    params = make_experiment(config, splits).state_shapes.params
    assert models.count_params(params) == RECIPES[name][0]


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPPED)
def test_first_two_steps(name, splits):
    params, metrics = first_two_steps(name, splits)
    for number, scores in enumerate(metrics):
        for key, value in scores.items():
            assert value == pytest.approx(
                GOLDEN[name][number][key], rel=2e-3, abs=1e-8
            ), (
                f"{key} of step {number} moved. If that is meant, say so in the commit "
                "and write the new numbers with "
                "`python -m tests.training.test_recipes`."
            )
        before, after = map(jax.tree.leaves, params[number : number + 2])
        moved = max(
            float(jnp.abs(a - b).max()) for a, b in zip(before, after, strict=True)
        )
        # A warm-up begins at a rate of zero, so its first step changes nothing.
        assert (moved > 0) == (scores["learning_rate"] > 0)


@pytest.mark.parametrize(
    "change, keys",
    [
        ("augment", {"augment.crop", "augment.flip"}),
        ("decay", {"optim.weight_decay"}),
        ("cosine", {"schedule.name"}),
        ("longer", {"num_epochs"}),
    ],
)
def test_each_single_change_is_one_change(change, keys):
    """Each variant between "baseline" and "stronger" makes one change."""

    def settings(variant):
        return dict(flatten(load(f"vit_256x6.py:{variant}")))

    baseline, single, stronger = map(settings, ("baseline", change, "stronger"))
    assert {key for key in baseline if baseline[key] != single[key]} == keys
    assert all(single[key] == stronger[key] for key in keys)


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)  # as for the tests
    real = real_images(os.environ["CIFAR10_DIR"])
    golden = {name: first_two_steps(name, real)[1] for name in STEPPED}
    file = pathlib.Path(__file__).with_name("recipe_metrics.json")
    file.write_text(json.dumps(golden, indent=1) + "\n")
