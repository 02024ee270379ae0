"""The notebooks run from top to bottom, and hold no outputs."""

import json
import os
import pathlib
import subprocess
import sys

import nbclient
import nbformat
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "experiments"


def execute(name):
    """(printed text, number of pictures) of a notebook, run in its own process."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}
    ).execute()
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", ())]
    text = "".join(o["text"] for o in outputs if o.get("name") == "stdout")
    return text, sum("image/png" in o.get("data", ()) for o in outputs)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda p: p.stem)
def test_no_outputs_are_committed(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None


@pytest.mark.slow
def test_evaluate_run(tiny_run, monkeypatch):
    workdir, results = tiny_run
    # A reader gives the path from the folder of the repository.
    monkeypatch.setenv("VIT_JAX_RUN", os.path.relpath(workdir, FOLDER.parent))
    text, num_pictures = execute("evaluate_run")
    assert f"test accuracy: {results['test']['accuracy']:.2%}" in text
    assert num_pictures == 6


OWN_MODEL = """
import flax.linen as nn
from vit_jax.config import default_config

class Linear(nn.Module):
    num_classes: int
    dtype: str

    @nn.compact
    def __call__(self, images, *, train=False):
        return nn.Dense(self.num_classes)(images.reshape(len(images), -1))

MODELS = {"linear": Linear}

def get_config():
    config = default_config()
    config.code, config.model.name = __file__, "linear"
    config.data.source = config.data.name = "digits"
    config.data.validation, config.data.select_on = 0, "nothing"
    config.num_epochs, config.schedule.warmup = 1, "10%"
    return config
"""


@pytest.mark.slow
def test_evaluate_run_of_a_model_of_ones_own_without_a_hold_out(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file, workdir = tmp_path / "my_code.py", tmp_path / "run"
    file.write_text(OWN_MODEL)
    # In another process, so that the model does not stay in the table of this one.
    command = ["vit_jax.main", f"--config={file}", f"--workdir={workdir}"]
    subprocess.run([sys.executable, "-m", *command], check=True)
    monkeypatch.setenv("VIT_JAX_RUN", str(workdir))
    text, num_pictures = execute("evaluate_run")
    assert "only for ViTs and ResNets" in text and "No images are held out" in text
    assert num_pictures == 5


@pytest.mark.slow
def test_explore_cifar10(cifar10_dir, monkeypatch):
    monkeypatch.setenv("CIFAR10_DIR", str(cifar10_dir))
    text, num_pictures = execute("explore_cifar10")
    assert "train: 3,000 images" in text and "test: 10,000 images" in text
    assert num_pictures == 5
