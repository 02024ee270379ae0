"""A run as the teacher of another one: checked, told apart, and learned from."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax import augment
from vit_jax.data import Dataset
from vit_jax.errors import UserError
from vit_jax.files import read_json
from vit_jax.parallel import mesh as meshes
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run
from vit_jax.runs.user_code import add_user_code, digest
from vit_jax.training.experiment import make_experiment
from vit_jax.training.start import load_own_run
from vit_jax.training.teacher import load_teacher, logits_of, require_teacher
from vit_jax.training.train import train_and_evaluate


def change_json(path, **changes):
    path.write_text(json.dumps(read_json(path) | changes))


def test_a_run_becomes_the_teacher_that_the_config_names(tiny_config, tiny_run, splits):
    workdir, results = tiny_run
    config = tiny_config(
        distill__teacher=str(workdir), distill__kind="soft", distill__alpha=0.3,
        distill__temperature=2.0,
    )  # fmt: skip
    built = make_experiment(config, splits)
    asked = built.train_step.keywords["objective"].keywords
    assert (asked["kind"], asked["alpha"], asked["temperature"]) == ("soft", 0.3, 2.0)
    run = load_run(workdir)
    jax.tree.map(np.testing.assert_array_equal, built.teacher, run.variables)
    leaf = jax.tree.leaves(built.teacher)[0]
    assert leaf.sharding == meshes.replicated(built.mesh)
    assert built.config.distill.step == results["best_step"]
    assert built.config.distill.sha256 == run.sha256
    # What was filled in may be given, too.
    assert make_experiment(built.config, splits).config == built.config
    assert make_experiment(tiny_config(), splits).teacher is None


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda run: shutil.rmtree(run), "is no run folder"),
        (lambda run: (run / "dataset.json").unlink(), "it has no dataset.json"),
        (lambda run: shutil.rmtree(run / "checkpoints"), "has no checkpoint yet"),
        (
            lambda run: change_json(
                run / "dataset.json", class_names=list("abcdefghij")
            ),
            "knows the classes a, b, c, d, e, f, g, h, i, j, but the data have 0, 1",
        ),
    ],
)
def test_what_cannot_teach_is_refused_before_compiling(
    tiny_config, copied_run, splits, monkeypatch, break_it, words
):
    break_it(copied_run)
    monkeypatch.setattr("jax.jit", None)
    with pytest.raises(UserError, match=words) as refusal:
        make_experiment(tiny_config(distill__teacher=str(copied_run)), splits)
    assert "distill.teacher" in str(refusal.value)


def test_other_images_steps_and_weights_are_refused(
    tiny_config, tiny_run, splits, monkeypatch
):
    monkeypatch.setattr("jax.jit", None)
    workdir = str(tiny_run[0])

    def refuse(words, splits=splits, **changes):
        changes = {"teacher": workdir, **changes}
        config = tiny_config(**{f"distill__{k}": v for k, v in changes.items()})
        with pytest.raises(UserError, match=words):
            make_experiment(config, splits)

    train = splits["train"]
    larger = np.pad(np.asarray(train.images), ((0, 0), (0, 4), (0, 4), (0, 0)))
    larger = Dataset(larger, train.labels, train.class_names)
    refuse(
        r"shape \(8, 8, 1\), but those to learn have \(12, 12, 1\)", {"train": larger}
    )
    refuse("no checkpoint 5", step=5)
    refuse("sha256 is 1234", sha256="1234")
    changes = {"objective": "masked_autoencoding", "data__select_on": "nothing"}
    with pytest.raises(UserError, match=r"set config\.distill\.teacher="):
        make_experiment(tiny_config(distill__teacher=workdir, **changes), splits)


@pytest.mark.slow
def test_the_teacher_sees_the_images_by_its_own_normalisation(
    tiny_config, tiny_run, splits
):
    run = load_run(tiny_run[0])
    other = tiny_config(data__mean=(0.7,), data__std=(0.1,)).data
    images = splits["test"].images[:4]
    normalized = jnp.float32((images / 255 - 0.7) / 0.1)
    seen = jax.jit(logits_of(run, other))(run.variables, normalized)
    np.testing.assert_allclose(jax.nn.softmax(seen), run.predict(images), rtol=1e-4)


@pytest.mark.parametrize(
    ("key", "value"),
    [("kind", "soft"), ("alpha", 1.0), ("temperature", 1.0), ("step", 6)],
)
def test_settings_of_a_teacher_need_one(tiny_config, tmp_path, key, value):
    config = tiny_config(**{f"distill__{key}": value})
    with pytest.raises(
        UserError, match=f"distill.{key} is .* only with config.distill.teacher"
    ):
        train_and_evaluate(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_temperature_needs_soft_predictions(tiny_config):
    config = tiny_config(distill__teacher="run", distill__temperature=5.0)
    with pytest.raises(UserError, match=r"only with config\.distill\.kind=soft"):
        require_teacher(config)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_both_of_two_heads_must_learn(tiny_config, alpha):
    config = tiny_config(distill__teacher="run", distill__alpha=alpha)
    require_teacher(config)
    config.model.distillation_token = True
    with pytest.raises(UserError, match=f"alpha is {alpha:g}, .* learn nothing"):
        require_teacher(config)


def test_the_code_of_another_run_does_not_replace_ones_own(
    copied_run, tiny_config, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "theirs.py"
    file.write_text("AUGMENTATIONS = {'own': lambda key, image: image}\n")
    monkeypatch.setitem(augment.AUGMENTATIONS, "own", None)
    add_user_code(str(file))  # as the training of that run did
    monkeypatch.setitem(augment.AUGMENTATIONS, "own", len)
    code = {"code": str(file), "code_sha256": digest(str(file))}
    config = RunFolder(copied_run).read("config")
    RunFolder(copied_run).write("config", config | code)
    load_teacher(tiny_config(distill__teacher=str(copied_run)).distill)
    assert augment.AUGMENTATIONS["own"] is len
    load_own_run(str(copied_run))
    assert augment.AUGMENTATIONS["own"] is len
    load_run(copied_run)
    assert augment.AUGMENTATIONS["own"] is not len
