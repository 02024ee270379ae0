"""Masked autoencoding as a run: its scores, its folder, and what others say to it."""

import json
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from tests.training.made import RESNET
from vit_jax import compare, data, evaluate, explain, explore, predict
from vit_jax.errors import UserError
from vit_jax.models import mae
from vit_jax.parallel import mesh as meshes
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run
from vit_jax.training import masked, scoring
from vit_jax.training.experiment import make_experiment
from vit_jax.training.teacher import load_teacher
from vit_jax.training.train import train_and_evaluate

MASKED = {
    "objective": "masked_autoencoding", "data__select_on": "nothing",
    "model__patch_size": 2, "model__pooling": "mean", "model__stem": "conv",
    "mae__decoder_width": 16, "mae__decoder_depth": 1, "mae__decoder_heads": 2,
}  # fmt: skip
LONG = {
    "num_steps": 60, "batch_size": 64, "eval_every": "30 steps",
    "checkpoint_every": "30 steps", "log_every": "5 steps",
    "optim__learning_rate": 3e-3, "schedule__warmup": "10 steps",
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tiny_config, tmp_path_factory):
    """(folder, results) of a finished run on real digits; not to be changed."""
    workdir = tmp_path_factory.mktemp("runs") / "mae"
    return workdir, train_and_evaluate(tiny_config(**MASKED, **LONG), workdir)


@pytest.mark.slow
def test_a_run_learns_to_reconstruct(run):
    workdir, results = run
    folder = RunFolder(workdir)
    losses = {
        split: [r["loss"] for r in folder.read_metrics() if r["split"] == split]
        for split in ("train", "val")
    }
    assert losses["train"][-1] < 0.9 * losses["train"][0]
    assert losses["val"][1] < losses["val"][0]
    assert results["test"] == folder.read("results")["test"]
    assert results["test"]["accuracy"] is None
    assert results["test"]["num_examples"] == 359
    assert results["val"]["loss"] == losses["val"][-1]
    assert results["selected_on"] == "nothing" and results["best_step"] == 60
    for name in ("reconstructions", "training_curves"):
        assert (folder.figures / f"{name}.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_score_of_an_image_is_its_own(run):
    """Neither the batch nor the order decides which patches of an image are hidden."""
    loaded = load_run(run[0])
    images = data.load(loaded.config.data)["test"].images
    mesh = meshes.make_mesh(1)
    step = masked.make_eval_step(loaded.config.data, loaded.model, mesh)

    def losses(images, batch_size):
        return scoring.score_split(
            loaded.variables, images, eval_step=step, batch_size=batch_size, mesh=mesh
        )

    whole = losses(images, 120)
    assert whole.shape == (359,)
    np.testing.assert_allclose(losses(images[::-1], 50)[::-1], whole, rtol=1e-4)
    assert whole.mean() == pytest.approx(run[1]["test"]["loss"], rel=1e-5)


@pytest.mark.slow
def test_a_figure_shows_what_was_visible_and_fills_the_rest(run):
    loaded = load_run(run[0])
    experiment = make_experiment(loaded.config, data.load(loaded.config.data))
    images = experiment.splits["test"].images[:5]
    drawn = masked.reconstruct(experiment, loaded.variables, images)
    np.testing.assert_array_equal(drawn[:, 0], images)
    grey = round(255 * loaded.config.data.mean[0])
    for image, shown, filled in drawn[..., 0]:
        cut = [
            np.asarray(mae.to_patches(jnp.float32(x)[None, ..., None], 2))[0]
            for x in (image, shown, filled)
        ]
        hidden = (cut[1] == grey).all(axis=1)
        assert hidden.sum() == 12
        np.testing.assert_array_equal(cut[1][~hidden], cut[0][~hidden])
        np.testing.assert_array_equal(cut[2][~hidden], cut[0][~hidden])


@pytest.mark.slow
def test_a_classifier_is_trained_from_the_folder_and_says_what_it_took(
    run, tiny_config, tmp_path, capsys
):
    model = {key: value for key, value in MASKED.items() if key.startswith("model")}
    config = tiny_config(
        **model, model__num_registers=2, num_steps=1, optim__learning_rate=0.0,
        schedule__warmup="0 steps", data__select_on="nothing",
        pretrained__path=str(run[0]), pretrained__allow=("regist.*",),
    )  # fmt: skip
    results = train_and_evaluate(config, tmp_path)
    assert results["test"]["accuracy"] >= 0
    old, new = load_run(run[0]), load_run(tmp_path)
    learned = traverse_util.flatten_dict(old.variables["params"], sep="/")
    found = traverse_util.flatten_dict(new.variables["params"], sep="/")
    encoder = {name for name in learned if not name.startswith("decoder")}
    assert found.keys() - encoder == {"head/kernel", "head/bias", "registers"}
    for name in encoder:
        np.testing.assert_array_equal(found[name], learned[name], err_msg=name)
    rows = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert ["weights", str(run[0])] in rows and ["SHA-256", old.sha256] in rows
    assert ["mapped", f"{len(encoder)} parameters"] in rows
    assert ["new", "registers: the file lacks it"] in rows
    (dropped,) = (text for label, text in rows if label == "dropped")
    assert dropped.startswith("decoder") and dropped.endswith(
        "more: the decoder of a masked autoencoder"
    )


@pytest.mark.slow
def test_explore_shows_the_features_of_the_encoder(run, tmp_path):
    explore.main([f"--run={run[0]}", f"--out={tmp_path}", "--tsne_images=20"])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["distances"]["features"]["num_examples"] == 20
    loaded = load_run(run[0])
    features = loaded.features(data.load(loaded.config.data)["test"].images[:20])
    assert features.shape == (20, 16) and np.isfinite(features).all()


@pytest.mark.slow
def test_commands_for_classifiers_refuse_the_run_in_a_sentence(
    run, tiny_config, tmp_path
):
    workdir = str(run[0])
    other = shutil.copytree(run[0], tmp_path / "other")
    calls = {
        evaluate: [f"--workdir={workdir}"],
        predict: [f"--workdir={workdir}", "image.png"],
        explain: [f"--workdir={workdir}", "--indices=0"],
        compare: [workdir, str(other), f"--out={tmp_path / 'out'}"],
    }
    for command, arguments in calls.items():
        with pytest.raises(UserError, match="masked autoencoding, which"):
            command.main(arguments)
    with pytest.raises(UserError, match="train a classifier from it"):
        load_run(workdir).predict(np.zeros((1, 8, 8, 1), np.uint8))
    with pytest.raises(UserError, match=r"teacher cannot be loaded: .* autoencoding"):
        load_teacher(tiny_config(distill__teacher=str(workdir)).distill)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data__select_on": "val"}, "set config.data.select_on=nothing"),
        ({"early_stopping__patience": 2}, "config.early_stopping.patience is 2"),
        ({"early_stopping__target": 0.9}, "config.early_stopping.target=None"),
        ({"linear_probe": True}, "config.linear_probe=False"),
        ({"optim__trainable": "head"}, "config.optim.trainable=all"),
        ({"pretrained__head": "zero"}, "config.pretrained.head=fresh"),
        ({"optim__class_weights": "balanced"}, "config.optim.class_weights=none"),
        ({"augment__label_smoothing": 0.1}, "config.augment.label_smoothing=0.0"),
        (RESNET | {"model__pooling": None, "model__stem": None}, "no patches to hide"),
        ({"mae__mask_ratio": 0.01}, "config.mae.mask_ratio is 0.01"),
    ],
)  # fmt: skip
def test_settings_that_need_classes_are_refused(tiny_config, splits, changes, words):
    with pytest.raises(UserError) as refusal:
        make_experiment(tiny_config(**MASKED | changes), splits)
    assert words in str(refusal.value)
