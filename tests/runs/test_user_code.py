"""Models, sources and augmentations from a user's file; the recipe of the docs."""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from vit_jax import augment, data, explain, models
from vit_jax.config import default_config, load_config_file
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run
from vit_jax.runs.run import build_model, fill_model_settings
from vit_jax.runs.user_code import add_code_of_run, add_user_code, own_tables
from vit_jax.training.experiment import make_experiment

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "adding_a_model.md"


@pytest.fixture(autouse=True)
def own_list(tmp_path, monkeypatch):
    """Files that are named here do not become trusted on this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def my_code(tmp_path):
    """The file of the documentation; what it adds to the tables is taken back."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "my_code.py"
    file.write_text(code)
    with own_tables():
        yield file


@pytest.fixture
def own_config(tiny_config):
    """A config of a model "own", for which the test puts a row into the table."""
    return tiny_config(
        model__name="own", model__patch_size=None, model__width=None,
        model__depth=None, model__num_heads=None,
    )  # fmt: skip


def make_augment(config_augment):
    return augment.make_augment(
        config_augment, mean=(0,) * 3, std=(1,) * 3, num_classes=2, mix_until_step=0
    )


@pytest.mark.slow
def test_the_file_of_the_docs_adds_to_all_tables(my_code):
    config = load_config_file(str(my_code))
    with pytest.raises(UserError, match="no data source 'stripes'"):
        data.load(config.data)
    add_user_code(config.code)
    splits = data.load(config.data)
    assert {name: len(split) for name, split in splits.items()} == {
        "train": 432, "val": 48, "test": 120
    }  # fmt: skip
    model = models.make_model(
        config.model, num_classes=2, image_shape=(16, 16, 3), dtype="float32"
    )
    assert type(model).__name__ == "SmallNet" and model.num_classes == 2
    macs = models.count_macs(model, (16, 16, 3))
    assert macs == pytest.approx(16 * 16 * 16 * 27, rel=0.25)
    operation = make_augment(config.augment)
    images = np.zeros((64, 16, 16, 3), np.uint8)
    indices = jnp.arange(64, dtype=jnp.int32)
    found, _ = jax.jit(operation)(
        jax.random.key(0), images, 0 * indices, step=0, epochs=indices, indices=indices,
        run_key=jax.random.key(0),
    )  # fmt: skip
    inverted = np.asarray(found[:, 8, 8, 0])
    assert set(inverted.tolist()) == {0, 1} and 0.25 < inverted.mean() < 0.75
    add_user_code(config.code)  # The same file again is no conflict.


@pytest.mark.parametrize(
    "code, words",
    [
        ("MODELS = {'vit': print}", '"vit", which the package has already'),
        ("MODELS = {'x': 3}", "must be a dictionary from names to classes"),
        ("x = 1", "has none of MODELS, SOURCES, AUGMENTATIONS"),
        ("\n1 / 0", "fails in line 2 .ZeroDivisionError"),
    ],
)
def test_files_that_add_nothing_are_refused(tmp_path, code, words):
    file = tmp_path / "code.py"
    file.write_text(code)
    with pytest.raises(UserError, match=words):
        add_user_code(str(file))
    with pytest.raises(UserError, match="there is no such Python file"):
        add_user_code(str(tmp_path / "other.py"))
    (tmp_path / "code.txt").write_text(code)
    with pytest.raises(UserError, match="there is no such Python file"):
        add_user_code(str(tmp_path / "code.txt"))


def test_what_is_not_there_is_named(my_code):
    config = default_config()
    config.augment.own = "invrt"
    with pytest.raises(UserError, match="none are known"):
        make_augment(config.augment)
    add_user_code(str(my_code))
    with pytest.raises(UserError, match='did you mean "invert"'):
        make_augment(config.augment)
    data.SOURCES["stripes"] = lambda config_data: None
    config.data.source = "stripes"
    with pytest.raises(UserError, match="stripes returned a NoneType, but must"):
        data.load(config.data)


@pytest.mark.parametrize(
    "own, words",
    [
        (lambda key, image: image / 255, "returned float32.16, 16, 3., but must"),
        (lambda key, image: image[2:-2], "returned uint8.12, 16, 3., but must"),
        (lambda key, image: None, "returned NoneType, but must return an image"),
        (
            lambda key, image: 255 - image if jax.random.bernoulli(key) else image,
            r"use jnp.where .*test_user_code.py, line \d+",
        ),
        (lambda key, image: np.roll(image, 2, axis=1), r"use jax.numpy, .*, line \d+"),
        (
            lambda key, image: image + [0, 1][jax.random.randint(key, (), 0, 2)],
            r"jnp.array\(...\)\[i\] and .*test_user_code.py, line \d+",
        ),
        (
            lambda key, image: jnp.zeros(jax.random.randint(key, (), 1, 9), jnp.uint8),
            r'"own" fails in .*test_user_code.py, line \d+ \(TypeError: Shapes must be',
        ),
        (
            lambda key, image: image[: jax.random.randint(key, (), 1, 9)],
            r'"own" fails in .*test_user_code.py, line \d+ \(IndexError: .*static',
        ),
    ],
)
def test_an_augmentation_that_returns_something_else_is_refused(
    monkeypatch, own, words
):
    monkeypatch.setitem(augment.AUGMENTATIONS, "own", own)
    config = default_config().augment
    config.own = "own"
    operation = make_augment(config)
    images, key = jnp.zeros((4, 16, 16, 3), np.uint8), jax.random.key(0)
    indices = jnp.arange(4, dtype=jnp.int32)
    with pytest.raises(UserError, match=words):
        operation(
            key, images, indices, step=jnp.int32(0), epochs=indices, indices=indices,
            run_key=key,
        )  # fmt: skip


class _Own(nn.Module):
    num_classes: int = 10
    dtype: str = "float32"
    results: int = 1

    def __call__(self, images, *, train=False):
        logits = jnp.zeros((len(images), self.num_classes * self.results))
        return logits if self.results else (logits, logits)


class _Half(_Own):
    def __call__(self, images, *, train=False):
        return super().__call__(images).astype(jnp.bfloat16)


class _OtherSettings(_Own):
    num_heads: tuple = (3, 6)  # the setting of this name is a number
    width: int = 24
    sizes: tuple = dataclasses.field(default_factory=lambda: (1, 2))


def test_a_source_that_fails_is_refused(monkeypatch, tiny_config):
    monkeypatch.setitem(data.SOURCES, "mine", lambda config_data: {}["train"])
    config = tiny_config(data__source="mine")
    with pytest.raises(UserError, match=r"mine of config.code fails in .*KeyError: 't"):
        data.load(config.data)


def test_splits_with_other_names_are_refused(monkeypatch, tiny_config):
    splits = data.load(tiny_config().data)
    named = {"train": splits["train"], "validation": splits["test"]}
    monkeypatch.setitem(data.SOURCES, "mine", lambda config_data: named)
    with pytest.raises(UserError, match=r"'train', 'validation', but only .* rename"):
        data.load(tiny_config(data__source="mine").data)


def test_a_model_with_a_list_is_refused(monkeypatch, own_config):
    row = functools.partial(_OtherSettings, sizes=[1, 2])
    monkeypatch.setitem(models.MODELS, "own", row)
    with pytest.raises(UserError, match=r"own has an attribute .* give a tuple in its"):
        build_model(own_config, (8, 8, 1), 10)


def test_attributes_may_share_a_name_with_a_setting(monkeypatch, own_config):
    monkeypatch.setitem(models.MODELS, "own", _OtherSettings)
    fill_model_settings(own_config)
    assert (own_config.model.num_heads, own_config.model.width) == (None, 24)
    model = build_model(own_config, (8, 8, 1), 10)
    assert (model.num_heads, model.width, model.sizes) == ((3, 6), 24, (1, 2))


class _Failing(_Own):
    """Fails, in training only, where `only_training` is True."""

    only_training: bool = False

    def __call__(self, images, *, train=False):
        if train or not self.only_training:
            images = images.reshape(5, -1)
        return super().__call__(images)


class _Keeping(_Own):
    """Has a variable of the collection `keeps`."""

    keeps: str = "constants"

    @nn.compact
    def __call__(self, images, *, train=False):
        self.variable(self.keeps, "scale", lambda: 2.0)
        return super().__call__(images)


class _WithoutTrain(nn.Module):
    num_classes: int = 10
    dtype: str = "float32"

    def __call__(self, images):
        return images


@pytest.mark.parametrize(
    "row, words",
    [
        (
            functools.partial(_Own, results=0),
            "own of config.code returned a tuple, but",
        ),
        (functools.partial(_Own, resutls=2), "resutls=2.*, but .* by name, results"),
        (functools.partial(_Own, 10), r"_Own.*, 10.*, but .* by name, results"),
        (functools.partial(_Own, results=2), r"returned shape .1, 20., but .* .1, 10."),
        (_Half, "returned values of bfloat16, but must return float32 logits"),
        (
            _Failing,
            r"own of config.code fails in .*_code.py, line \d+ .TypeError: ",
        ),
        (functools.partial(_Failing, only_training=True), "own of config.code fails"),
        (_Keeping, r"variables of the collection 'constants' .* use batch_stats"),
        (_WithoutTrain, "has a __call__ that takes no argument train"),
        (nn.Dense, "Dense, has no field num_classes; add"),
        (nn.Dropout, "has no field num_classes and no field dtype; add"),
        (_WithoutTrain(), "must be a class of flax.linen.Module .* put the class"),
    ],
)
def test_a_model_that_returns_no_logits_is_refused(monkeypatch, own_config, row, words):
    monkeypatch.setitem(models.MODELS, "own", row)
    with pytest.raises(UserError, match=words):
        make_experiment(own_config, data.load(own_config.data))


@pytest.mark.slow
def test_the_recipe_of_the_docs_word_for_word(my_code, tmp_path):
    """The commands as they stand there, in the folder of the file."""
    (block,) = re.findall(
        r"^```\n(python .*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    commands = [command.split()[1:] for command in block.splitlines()]
    assert len(commands) == 3
    image = tmp_path / "runs" / "mine" / "figures" / "training_curves.png"
    predict = ["-m", "vit_jax.predict", "--workdir=runs/mine", str(image)]
    for arguments, words in (
        *((command, "") for command in commands),
        ([*predict, "--figures=drawn"], "no heat map, because SmallNet is neither"),
    ):
        found = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert found.returncode == 0 and words in found.stderr, found.stderr
    run = f"--workdir={tmp_path / 'runs' / 'mine'}"
    with pytest.raises(UserError, match="heat maps for ViTs and ResNets only"):
        explain.main([run])
    with pytest.raises(UserError, match="SmallNet are not known"):
        explain.main([run, "--architecture"])
    results = json.loads((tmp_path / "runs" / "mine" / "results.json").read_text())
    assert results["test"]["accuracy"] > 0.9
    assert results["test"]["flops"] > 0
    explored = json.loads((tmp_path / "runs/mine_explored/summary.json").read_text())
    assert "features" in explored["distances"]


def test_a_run_stores_where_its_code_lies(tiny_config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_code.py").write_text("MODELS = {}")
    splits = data.load(tiny_config().data)
    built = make_experiment(tiny_config(code="my_code.py"), splits)
    assert built.config.code == str(tmp_path / "my_code.py")
    assert make_experiment(tiny_config(), splits).config.code == ""
    # A run of before, with the path as it was typed.
    folder = RunFolder(tmp_path / "run")
    folder.create()
    folder.start(built.config, {})
    stored = folder.read("config")
    folder.write("config", stored | {"code": "my_code.py"})
    (folder.checkpoints / "3").mkdir(parents=True)
    assert not folder.changes(built.config, {})
    (tmp_path / "my_code.py").write_text("MODELS = dict()")
    built = make_experiment(tiny_config(code="my_code.py"), splits)
    (change,) = folder.changes(built.config, {})
    assert change == "the file of config.code has other content"
    before = tiny_config(code="my_code.py", code_sha256=stored["code_sha256"])
    with pytest.raises(UserError, match=r"but the file of config\.code=.* has"):
        make_experiment(before, splits)


def test_code_of_a_stranger_is_not_run_before_it_is_named(copied_run, tmp_path):
    file, trace = copied_run / "model.py", tmp_path / "it_ran"
    touch = f"import pathlib\npathlib.Path({str(trace)!r}).touch()\n"
    file.write_text(touch + "MODELS = {}")
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    config = RunFolder(copied_run).read("config")
    config |= {"code": str(file), "code_sha256": sha256}
    RunFolder(copied_run).write("config", config)
    with pytest.raises(UserError, match="read it, and if you trust it, name it once"):
        load_run(copied_run)
    assert not trace.exists()
    with pytest.raises(UserError, match="none of MODELS"):
        add_user_code(str(file))
    assert trace.exists()
    # Named once, it is known in every later process.
    known = (tmp_path / "cache/vit_jax/named_code.txt").read_text()
    assert known.strip() == sha256
    with pytest.raises(UserError, match="none of MODELS"):
        load_run(copied_run)


def test_a_run_is_not_loaded_with_code_that_it_was_not_trained_with(tmp_path):
    file = tmp_path / "model.py"
    file.write_text("MODELS = {'before': print}")
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    # The new content was named as well, by the training of another run.
    file.write_text("MODELS = {'after': print}")
    with own_tables():
        add_user_code(str(file))
        with pytest.raises(UserError, match=f"other code than .* {before}"):
            add_code_of_run(str(file), before)
        with pytest.raises(UserError, match=r"other code than .* not stored"):
            add_code_of_run(str(file), "")
