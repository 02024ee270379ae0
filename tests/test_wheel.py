"""The wheel has every file, and works from any folder once it is installed."""

import importlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[1]
FILES = ("pyproject.toml", "setup.cfg", "setup.py", "README.md", "LICENSE")
BUILD = "from setuptools import build_meta; build_meta.build_wheel('dist')"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the installed wheel."""
    source = tmp_path_factory.mktemp("source")
    for folder in ("vit_jax", "configs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, source / folder, ignore=ignored)
    for file in FILES:
        shutil.copy(ROOT / file, source)
    target = tmp_path_factory.mktemp("installed")
    # Without the isolation of `python -m build`, which fetches setuptools.
    run([sys.executable, "-c", BUILD], source)
    (wheel,) = (source / "dist").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    run([*pip, f"--target={target}", str(wheel)], source)
    return target


def run(command, folder, **variables):
    result = subprocess.run(
        command, cwd=folder, env={**os.environ, **variables},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def files_below(folder):
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_every_file_of_the_package_and_every_config_comes_along(installed):
    expected = files_below(ROOT / "vit_jax") | {
        f"configs/{name}" for name in files_below(ROOT / "configs")
    }
    assert files_below(installed / "vit_jax") == expected
    assert "py.typed" in expected


def test_every_command_has_a_script(installed):
    (wheel,) = importlib.metadata.distributions(path=[str(installed)])
    modules = ["compare", "evaluate", "explain", "explore", "predict", "train"]
    for module, script in zip(modules, sorted(wheel.entry_points), strict=True):
        assert script.name == f"vit-jax-{module}"
        assert (installed / "bin" / script.name).is_file()
        target, _, function = script.value.partition(":")
        # This checkout has the same file.
        module = importlib.import_module(target)
        assert getattr(module, function).args == (module.main,)


def test_the_help_of_a_script_calls_it_by_its_name(installed, tmp_path):
    script = installed / "bin" / "vit-jax-train"
    said = run([script, "--help"], tmp_path, PYTHONPATH=str(installed))
    assert said.startswith("usage: vit-jax-train ")


def test_a_config_is_trained_by_its_name_from_another_folder(installed, tmp_path):
    variables = {"PYTHONPATH": str(installed)}
    found = run([sys.executable, "-c", "import vit_jax; print(vit_jax.__file__)"],
                tmp_path, **variables)  # fmt: skip
    assert found.startswith(str(installed))
    said = run(
        [
            installed / "bin" / "vit-jax-train", "--config=vit_digits",
            "--workdir=run", "--config.num_steps=1", "--config.model.depth=1",
            "--config.model.width=16", "--config.schedule.warmup=0",
        ],
        tmp_path,
        **variables,
    )  # fmt: skip
    assert "test accuracy" in said
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["num_steps"] == 1
