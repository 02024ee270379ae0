"""A run as the teacher of another one: checked, told apart, and learned from."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.training.made import RESNET, batch_of
from vit_jax.data import Dataset
from vit_jax.errors import UserError
from vit_jax.files import read_json
from vit_jax.parallel import mesh as meshes
from vit_jax.runs.load import load_run
from vit_jax.training.experiment import make_experiment
from vit_jax.training.teacher import logits_of
from vit_jax.training.train import train_and_evaluate


def change_json(path, **changes):
    path.write_text(json.dumps(read_json(path) | changes))


def test_a_run_becomes_the_teacher_that_the_config_names(tiny_config, tiny_run, splits):
    workdir, results = tiny_run
    config = tiny_config(distill__teacher=str(workdir))
    built = make_experiment(config, splits)
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
        (lambda run: shutil.rmtree(run / "checkpoints"), "no checkpoint 'best'"),
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
    refuse("give the folder of the teacher's run", teacher="", step=6)
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


@pytest.mark.slow
def test_a_student_without_labels_learns_what_the_teacher_says(
    tiny_config, tmp_path, splits
):
    """Every label is 0 here, and has no weight beside what a ResNet says."""
    workdir = tmp_path / "resnet_teacher"
    resnet = tiny_config(
        **RESNET | {"model__width": 8}, num_steps=60, batch_size=64,
        eval_every="30 steps", optim__learning_rate=3e-3, data__mean=(0.1,),
        data__std=(2.0,),
    )  # fmt: skip
    train_and_evaluate(resnet, workdir)
    train, test = splits["train"], splits["test"]
    unlabelled = Dataset(train.images, np.zeros_like(train.labels), train.class_names)
    config = tiny_config(
        distill__teacher=str(workdir), distill__kind="hard", distill__alpha=1.0,
        model__distillation_token=True, model__width=32, num_steps=200, batch_size=64,
        optim__learning_rate=3e-3, schedule__name="constant",
    )  # fmt: skip
    built = make_experiment(config, {"train": unlabelled, "val": test, "test": test})
    step, state = jax.jit(built.train_step), built.init_state()
    order = np.random.default_rng(0)
    for _ in range(config.num_steps):
        batch = batch_of(built, order.integers(len(train), size=64).astype(np.int32))
        state, metrics = step(
            state, batch, built.root_key, jnp.float32(1), built.teacher
        )
    assert metrics["teacher_accuracy"] < 0.5  # Of labels that are all 0.
    predicted = built.score(state.variables, "test").argmax(-1)
    says = load_run(workdir).predict(test.images).argmax(-1)
    assert np.bincount(says, minlength=10).max() < 0.3 * len(says)
    assert np.mean(predicted == says) > 0.4


@pytest.mark.parametrize(
    ("key", "value"), [("kind", "soft"), ("alpha", 1.0), ("temperature", 1.0)]
)
def test_settings_of_a_teacher_need_one(tiny_config, tmp_path, key, value):
    config = tiny_config(**{f"distill__{key}": value})
    with pytest.raises(UserError, match=f"distill.{key} is .* only with a teacher"):
        train_and_evaluate(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
