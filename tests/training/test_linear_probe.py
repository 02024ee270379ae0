import jax
import numpy as np
import pytest

from vit_jax.errors import UserError
from vit_jax.metrics import classification
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run
from vit_jax.training.linear_probe import fit_logistic
from vit_jax.training.train import train_and_evaluate


def test_the_head_is_the_logistic_regression_of_the_features():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    features = rng.normal(labels[:, None] * [1.0, -0.5, 0.0, 2.0], 1.0) * 3 + 5
    kernel, bias, how = fit_logistic({"train": (features, labels)})
    scaled = (features - features.mean(0)) / (features.std(0) + 1e-6)
    model = LogisticRegression(C=0.1, max_iter=500).fit(scaled, labels)
    logits = features @ kernel + bias
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(probabilities, model.predict_proba(scaled), atol=1e-4)
    iterations = int(model.n_iter_[0])
    assert how == {"strength": 0.1, "iterations": iterations, "converged": True}


@pytest.mark.slow
def test_a_probe_that_reaches_its_limit_says_so():
    # Features that nearly depend on each other, and a weak penalty.
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 200)).cumsum(1)
    labels = rng.integers(0, 3, 300)
    splits = {"train": (features, labels), "val": (features, labels)}
    *_, how = fit_logistic(splits)
    assert how == {"strength": 100.0, "iterations": 500, "converged": False}


def test_the_penalty_has_the_lowest_of_the_validation_losses_that_are_said(capsys):
    rng = np.random.default_rng(0)
    splits = {
        name: (rng.normal(size=(30, 2)), rng.integers(0, 2, 30))
        for name in ("train", "val")
    }
    kernel, bias, _ = fit_logistic(splits)
    said = capsys.readouterr().out.splitlines()
    penalties, losses = said[::2], [float(line.split()[1]) for line in said[1::2]]
    assert "penalty of 10000 " in penalties[0] and "penalty of 0.01 " in penalties[-1]
    features, labels = splits["val"]
    logits = np.float32(features @ kernel + bias)
    loss = classification.cross_entropy(logits, labels)
    assert len(losses) == 7 and min(losses) == pytest.approx(loss, abs=1e-4)


def test_classes_weigh_as_they_are_told_to():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [90, 10])
    features = rng.normal(labels[:, None], 1.5, (100, 2))
    weights = (100 / 180, 100 / 20)
    kernel, bias, _ = fit_logistic({"train": (features, labels)}, weights)
    # The same as if each image of the second class were there nine times.
    copies = np.where(labels, 9, 1)
    many = np.repeat(features, copies, axis=0), np.repeat(labels, copies)
    logits = features @ kernel + bias
    chances = np.exp(logits[:, 1]) / np.exp(logits).sum(1)
    from sklearn.linear_model import LogisticRegression

    center, scale = features.mean(0), features.std(0) + 1e-6
    # The weights of the 180 copies have the sum of those of the 100 images.
    model = LogisticRegression(C=0.1 * 100 / 180, max_iter=500)
    model.fit((many[0] - center) / scale, many[1])
    expected = model.predict_proba((features - center) / scale)[:, 1]
    np.testing.assert_allclose(chances, expected, atol=1e-3)


@pytest.mark.parametrize("split", ["train", "val"])
def test_features_that_are_not_finite_are_refused(split):
    splits = {name: (np.eye(3), np.arange(3)) for name in ("train", "val")}
    splits[split][0][1, 2] = np.inf
    with pytest.raises(UserError, match=f"features of {split} images are not finite"):
        fit_logistic(splits)


@pytest.mark.slow
def test_a_probe_of_a_run_changes_the_head_alone(
    tiny_config, tiny_run, tmp_path, capsys
):
    # All of this is for steps, and would be refused in a training.
    stages = [{"num_steps": 2, "early_stopping.patience": 1}, {"optim.name": "adam"}]
    config = tiny_config(
        linear_probe=True, stages=stages, pretrained__path=str(tiny_run[0]),
        schedule__warmup="99 steps", schedule__name="milestones",
    )  # fmt: skip
    results = train_and_evaluate(config, tmp_path)
    assert results["test"]["accuracy"] > tiny_run[1]["test"]["accuracy"] + 0.2
    val = RunFolder(tmp_path).read("results")["val"]["accuracy"]
    assert f"val accuracy {val:.2%} with a penalty of " in capsys.readouterr().out
    # One evaluation is what comparisons know its accuracy and time by, and no curve.
    (record,) = RunFolder(tmp_path).read_metrics()
    assert record["split"] == "val" and record["accuracy"] == val
    assert record["seconds"] == results["train_seconds"] > 0
    assert not (tmp_path / "figures" / "training_curves.png").exists()
    # It replaces the stages.
    assert results["num_steps"] == 0 and "stages" not in results
    assert RunFolder(tmp_path).read("config")["stages"] == []
    assert results["linear_probe"].keys() == {"strength", "iterations", "converged"}
    assert results["num_trainable_params"] == 16 * 10 + 10
    start, probe = (load_run(x).variables["params"] for x in (tiny_run[0], tmp_path))
    for name in start:
        same = jax.tree.map(np.array_equal, start[name], probe[name])
        assert all(jax.tree.leaves(same)) == (name != "head")
    assert train_and_evaluate(config, tmp_path) == results
