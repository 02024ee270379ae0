"""What `import vit_jax` offers to a notebook."""

import numpy as np
import pytest

import vit_jax
from tests.parallel.running import run_code
from vit_jax.errors import UserError


def test_everything_public_is_listed():
    names = set(dir(vit_jax))
    assert names >= {"load_config", "load_run", "train", "UserError", "__version__"}
    for name in vit_jax.__all__:
        assert callable(getattr(vit_jax, name))
        assert name in vit_jax.__doc__
    with pytest.raises(AttributeError, match="laod_run"):
        _ = vit_jax.laod_run


def test_a_config_by_its_name_with_overrides():
    changes = {"optim.learning_rate": 1e-4, "model": {"depth": 2}, "batch_size": 64}
    config = vit_jax.load_config("vit_cifar", changes)
    assert (config.optim.learning_rate, config.model.depth) == (1e-4, 2)
    assert config.batch_size == 64 and config.model.width == 256
    with pytest.raises(UserError, match=r"config\.optim\.nmae"):
        vit_jax.load_config("vit_cifar", {"optim.nmae": "adam"})
    with pytest.raises(UserError, match="adam has none"):
        vit_jax.load_config("vit_cifar", {"optim.name": "adam"})


def test_a_config_file_and_a_folder_as_paths(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from vit_jax.config import default_config as get_config\n")
    config = vit_jax.load_config(file, {"data.dir": tmp_path / "photos"})
    assert config.data.dir == str(tmp_path / "photos")
    with pytest.raises(UserError, match=r"data\.dir is b'photos', but must be text"):
        vit_jax.load_config(file, {"data.dir": b"photos"})


@pytest.mark.slow
def test_from_a_config_to_predictions(tiny_config, tmp_path):
    changes = tiny_config(num_steps=2, schedule__warmup="1 step").to_dict()
    results = vit_jax.train(changes, tmp_path / "run")
    assert results["num_steps"] == 2
    run = vit_jax.load_run(tmp_path / "run")
    images = np.zeros((3, 8, 8, 1), np.uint8)
    assert run.features(images).shape == (3, 16)
    assert run.features([]).shape == (0, 16)
    assert run.predict(images).shape == (3, 10)
    assert len(repr(run)) < 200
    for words in (str(tmp_path / "run"), "vit", "step 2", "3,850 parameters"):
        assert words in repr(run)


def test_a_notebook_shows_a_sentence_instead_of_a_traceback():
    pytest.importorskip("IPython")
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance(colors='nocolor')\n"
        "shell.run_cell('import vit_jax; vit_jax.load_config(\"vit_cifra\")')\n"
        'shell.run_cell(\'vit_jax.load_config("vit_cifar", "seed=1")\')\n'
    )
    found = run_code(code)
    lines = (found.stdout + found.stderr).strip().splitlines()
    assert len(lines) == 2 and lines[0].startswith("UserError: There is no config file")
    assert lines[1].startswith("UserError: The overrides are 'seed=1', but must be")
