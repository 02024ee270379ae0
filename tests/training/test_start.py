import json
import re
import shutil

import jax
import numpy as np
import pytest

from tests.rows import slow
from tests.training.made import RESNET
from vit_jax import data, pretrained
from vit_jax.config import load_config_file
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run
from vit_jax.training import dispatch
from vit_jax.training.experiment import make_experiment
from vit_jax.training.start import load_own_run, pretrained_variables
from vit_jax.training.train import train_and_evaluate

pytestmark = pytest.mark.usefixtures("no_curves")

STILL = {"optim__learning_rate": 0.0, "num_steps": 1, "data__select_on": "nothing",
         "data__validation": 0, "schedule__warmup": "0 steps"}  # fmt: skip


def leaves(run, *without):
    params = {k: v for k, v in run.variables["params"].items() if k not in without}
    return jax.tree.leaves(params)


@pytest.mark.slow
def test_a_run_starts_from_another_run(tiny_config, tiny_run, tmp_path):
    config = tiny_config(pretrained__path=str(tiny_run[0]), **STILL)
    train_and_evaluate(config, tmp_path)
    old, new = load_run(tiny_run[0]), load_run(tmp_path)
    for a, b in zip(leaves(old, "head"), leaves(new, "head"), strict=True):
        np.testing.assert_array_equal(a, b)
    heads = (run.variables["params"]["head"]["kernel"] for run in (old, new))
    assert not np.array_equal(*heads)
    report = json.loads((tmp_path / "pretrained.json").read_text())
    assert report["sha256"] == old.sha256 and len(report["sha256"]) == 64
    assert "head/kernel" in report["new"] and "positions" in report["mapped"]
    # As if it had ended before its first checkpoint; then a start without the weights.
    shutil.rmtree(tmp_path / "checkpoints")
    (tmp_path / "results.json").unlink()
    train_and_evaluate(tiny_config(**STILL), tmp_path)
    assert not (tmp_path / "pretrained.json").exists()


@pytest.mark.slow
def test_the_head_is_kept_and_positions_and_images_resized(
    tiny_config, tiny_run, tmp_path
):
    config = tiny_config(
        pretrained__path=str(tiny_run[0]), pretrained__head="keep", data__resize=16,
        **STILL,
    )  # fmt: skip
    results = train_and_evaluate(config, tmp_path)
    old, new = load_run(tiny_run[0]), load_run(tmp_path)
    assert new.input_shape == (16, 16, 1)
    assert new.variables["params"]["positions"].shape[1] == 1 + 16
    for a, b in zip(leaves(old, "positions"), leaves(new, "positions"), strict=True):
        np.testing.assert_array_equal(a, b)
    images = np.zeros((2, 8, 8, 1), np.uint8)
    assert new.normalize(images).shape == (2, 16, 16, 1)
    assert results["test"]["num_examples"] == 359


@pytest.mark.slow
def test_weights_of_a_file_become_a_run_as_they_are(tiny_run, tmp_path):
    old, file = load_run(tiny_run[0]), tmp_path / "weights.safetensors"
    pretrained.save_timm(file, old.model, old.variables["params"], old.input_shape)
    config = load_config_file("own_weights:vit_digits")
    config.model, config.pretrained.path = old.config.model, str(file)
    config.data.mean, config.data.std = old.config.data.mean, old.config.data.std
    results = train_and_evaluate(config, tmp_path / "run")
    new = load_run(tmp_path / "run")
    for a, b in zip(leaves(old), leaves(new), strict=True):
        np.testing.assert_array_equal(a, b)
    assert results["selected_on"] == "nothing" and results["val"] is None
    assert results["test"]["accuracy"] == tiny_run[1]["test"]["accuracy"]


@pytest.fixture(scope="module")
def changed_run(tiny_run, tmp_path_factory):
    """A function from settings and class names to a run that had these."""

    def make(class_names=None, **config_model):
        copy = tmp_path_factory.mktemp("changed") / "run"
        folder = RunFolder(shutil.copytree(tiny_run[0], copy))
        config, dataset = folder.read("config"), folder.read("dataset")
        config["model"] |= config_model
        dataset["class_names"] = class_names or dataset["class_names"]
        folder.write("config", config)
        folder.write("dataset", dataset)
        return load_own_run(str(copy))

    return make


def start_from(tiny_config, run, **changes):
    config = tiny_config(pretrained__path=str(run.workdir), **changes)
    return pretrained_variables(make_experiment(config, data.load(config.data)), run)


@pytest.mark.slow
def test_settings_of_a_run_that_its_tensors_do_not_show_are_compared(
    tiny_config, changed_run
):
    run = changed_run(norm_eps=1e-5, activation="gelu_tanh")
    differences = start_from(tiny_config, run)[1].differences
    assert differences == {
        "norm_eps": (1e-5, 1e-6),
        "activation": ("gelu_tanh", "gelu"),
    }
    for setting, words in (
        ({"model__num_heads": 4}, "set config.model.num_heads=2"),
        ({"model__norm_position": "post"}, "set config.model.norm_position=pre"),
    ):
        with pytest.raises(UserError, match=re.escape(words)):
            start_from(tiny_config, run, **setting)


@pytest.mark.slow
def test_what_the_config_leaves_open_is_the_weights(tiny_config, changed_run, tmp_path):
    first = changed_run(norm_eps=1e-5, activation="gelu_tanh")
    start = {"pretrained__path": str(first.workdir), **STILL}
    for number, (changes, eps) in enumerate(
        [({}, 1e-5), ({"model__norm_eps": 1e-4}, 1e-4)]
    ):
        workdir = tmp_path / str(number)
        results = train_and_evaluate(tiny_config(**start, **changes), workdir)
        model = load_run(workdir).config.model
        assert (model.norm_eps, model.activation) == (eps, "gelu_tanh")
        report = json.loads((workdir / "pretrained.json").read_text())
        assert set(report["differences"]) == ({"norm_eps"} if changes else set())
        # The run goes on without the weights, and is the same one.
        assert train_and_evaluate(tiny_config(**start, **changes), workdir) == results


@pytest.mark.slow
def test_a_head_is_kept_for_the_same_classes_alone(tiny_config, changed_run):
    run = changed_run(class_names=[*"1023456789"])
    start_from(tiny_config, run)
    with pytest.raises(UserError, match=r"knows the classes 1, 0, 2.*have 0, 1, 2"):
        start_from(tiny_config, run, pretrained__head="keep")


@pytest.mark.slow
def test_a_resnet_starts_from_a_resnet(tiny_config, tmp_path):
    train_and_evaluate(tiny_config(num_steps=2, **RESNET), tmp_path / "a")
    config = tiny_config(pretrained__path=str(tmp_path / "a"), **STILL, **RESNET)
    config.num_steps = None
    config.stages = [{"num_steps": 1, "optim.trainable": "head"}]
    train_and_evaluate(config, tmp_path / "b")
    old, new = (load_run(tmp_path / name) for name in "ab")
    for a, b in zip(leaves(old, "head"), leaves(new, "head"), strict=True):
        np.testing.assert_array_equal(a, b)
    stats = (jax.tree.leaves(run.variables["batch_stats"]) for run in (old, new))
    for a, b in zip(*stats, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_weights_of_timms_names_go_out_and_in(tiny_config, tiny_run, tmp_path):
    run, file = load_run(tiny_run[0]), tmp_path / "vit.safetensors"
    params = run.variables["params"]
    pretrained.save_timm(file, run.model, params, run.image_shape)
    config = tiny_config(pretrained__path=str(file), pretrained__head="keep", **STILL)
    train_and_evaluate(config, tmp_path / "run")
    for a, b in zip(leaves(run), leaves(load_run(tmp_path / "run")), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model__width": 32}, "does not fit the model.*config.json has"),
        slow(RESNET, "does not fit"),
        ({"pretrained__path": "nowhere.pth"}, "cannot be read"),
        slow({"pretrained__path": "nowhere.pth", "time_budget": "1 minute",
              "num_steps": None}, "cannot be read"),
        slow({"pretrained__allow": ("[",)}, "regular expression"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_training(
    tiny_config, tiny_run, tmp_path, monkeypatch, changes, words
):
    """Nothing is compiled, and no folder is left."""
    monkeypatch.setattr(dispatch, "compile_training", None)
    settings = {"pretrained__path": str(tiny_run[0])} | changes
    with pytest.raises(UserError, match=words):
        train_and_evaluate(tiny_config(**settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_settings_of_weights_need_some(tiny_config, tmp_path):
    config = tiny_config(pretrained__head="keep")
    with pytest.raises(UserError, match="head is 'keep', which has an effect"):
        train_and_evaluate(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
